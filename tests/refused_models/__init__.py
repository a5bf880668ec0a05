"""Makes models that TensorRT-RTX refuses: a few nodes for which it does, in the middle of many for which it does not."""
