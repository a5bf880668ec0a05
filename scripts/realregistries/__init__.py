"""Asks the plugin registries of NVIDIA's own TensorRTs, which need no GPU, about our plugin libraries."""
