"""Builds and runs TensorRT's engines, and writes the files around them."""
