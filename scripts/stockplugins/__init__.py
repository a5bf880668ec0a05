"""Reads NVIDIA's plugin creators out of their sources: facts for the table of TensorRT's stock plugins."""
