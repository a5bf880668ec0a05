"""Gets ONNX models with operators that TensorRT cannot import into TensorRT, with proof that the numbers are right."""
