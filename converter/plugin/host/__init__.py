"""The plugin host: drives a plugin library without TensorRT."""
