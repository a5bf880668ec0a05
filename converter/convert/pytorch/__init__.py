"""Exports PyTorch modules and saved programs to ONNX, with the profile, the inputs and the outputs that they bring along."""
