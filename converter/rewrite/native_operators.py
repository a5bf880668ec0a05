"""Lists the operators that TensorRT's ONNX parser imports."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def native_operators() -> frozenset[str]:
    """Returns the op_types that TensorRT's parser imports; it ignores domains."""
    return frozenset(asked_table("native_operators.json")["operators"])


def asked_parser() -> str:
    """Returns the TensorRT whose parser gave this list, as "tensorrt_rtx 1.7.1.116"."""
    return str(asked_table("native_operators.json")["asked"])


@cache
def asked_table(name: str) -> dict[str, Any]:
    """Loads a file of this folder with TensorRT's answers: "operators", and the TensorRT that was "asked"."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
