"""Runs graphs while the node at fault is looked for: with TensorRT, our kernels alone, or onnxruntime."""
