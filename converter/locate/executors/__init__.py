"""Runs graphs during the search for the faulty node: with TensorRT, the plugin kernels alone, or onnxruntime."""
