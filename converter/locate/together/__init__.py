"""Finds what TensorRT computes wrongly together, of nodes that are right alone."""
