"""Stage: reduces a model that TensorRT does not build to the fewest nodes that fail in the same way."""
