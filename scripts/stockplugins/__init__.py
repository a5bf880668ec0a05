"""Reads NVIDIA's plugin creators from their sources, as facts for the table of TensorRT's stock plugins."""
