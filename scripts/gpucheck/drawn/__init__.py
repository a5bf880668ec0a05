"""Random graphs as engines, against onnxruntime."""
