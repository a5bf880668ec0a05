"""Times engines: what trtexec prints, by layer, against baselines, and plugins against native operators."""
