"""Drives plugin libraries without TensorRT, and tests them against the plugin contract."""
