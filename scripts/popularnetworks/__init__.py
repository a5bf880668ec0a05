"""Networks of libraries that many use, exported to ONNX with small sizes and drawn weights, and converted."""
