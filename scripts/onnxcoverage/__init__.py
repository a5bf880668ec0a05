"""Holds the parts of scripts/onnx_coverage.py."""
