"""The parts of scripts/onnx_coverage.py."""
