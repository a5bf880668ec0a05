"""Exports PyTorch modules and saved programs to ONNX, with their profile, inputs and outputs."""
