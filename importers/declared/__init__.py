"""Describes foreign plugins by what their creators declare: those of the user's libraries, and TensorRT's own."""
