"""Builds and runs TensorRT engines, and writes the files that go with them."""
