"""Makes models that TensorRT-RTX refuses: a few failing nodes amid many that build."""
