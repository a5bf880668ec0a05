"""Rewrites the user's graph into TensorRT's graph."""
