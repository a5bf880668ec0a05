"""Times the kernels of plugins against baselines."""
