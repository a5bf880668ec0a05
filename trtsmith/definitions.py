"""Helps definitions of operators from outside: fills in and runs ONNX function bodies, and exports from PyTorch."""

from __future__ import annotations

from trtsmith.converter.scaffold.torch_export import exported_body
from trtsmith.converter.scaffold.torch_source import is_unedited, python_function
from trtsmith.importers.function_bodies import filled, run_body, wide

__all__ = ["exported_body", "filled", "is_unedited", "python_function", "run_body", "wide"]
