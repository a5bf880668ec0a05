"""Stage: cuts a model that TensorRT does not build down to the fewest nodes that fail in the same way."""
