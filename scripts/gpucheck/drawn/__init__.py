"""Runs random graphs as engines, and compares them with onnxruntime."""
