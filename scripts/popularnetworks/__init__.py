"""Exports networks of popular libraries to ONNX, with small sizes and random weights, and converts them."""
