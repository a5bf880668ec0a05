"""ONNX files whose weights stay where they are: reading, checking, writing, and the way into graph-surgeon."""
