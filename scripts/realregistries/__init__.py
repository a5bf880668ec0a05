"""Tests our plugin libraries in the plugin registries of NVIDIA's own TensorRTs, which need no GPU."""
