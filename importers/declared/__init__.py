"""Plugins of others, known by what their creators declare: the user's libraries', and those that TensorRT brings."""
