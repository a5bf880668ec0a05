"""Lists the operators that TensorRT's ONNX parser imports."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def native_operators() -> frozenset[str]:
    """Operators that TensorRT's parser imports, whatever their domain: it looks at the op_type only."""
    return frozenset(_table()["operators"])


def asked_parser() -> str:
    """The TensorRT whose parser was asked for this list, as "tensorrt_rtx 1.7.1.116"."""
    return str(_table()["asked"])


@cache
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("native_operators.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
