"""Drives a plugin library without TensorRT."""
