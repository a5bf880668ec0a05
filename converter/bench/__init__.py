"""Times engines as trtexec does, by layer, against baselines, and plugins against native operators."""
