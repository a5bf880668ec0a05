"""Operators of onnxruntime's own domain."""
