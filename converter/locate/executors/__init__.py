"""What a graph runs on while the node at fault is looked for: TensorRT, our kernels alone, or onnxruntime."""
