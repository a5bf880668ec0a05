"""Lists the operators that TensorRT's ONNX parser imports."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def native_operators() -> frozenset[str]:
    """Operators that TensorRT's parser imports, whatever their domain: it looks at the op_type only."""
    return frozenset(asked_table("native_operators.json")["operators"])


def asked_parser() -> str:
    """The TensorRT whose parser was asked for this list, as "tensorrt_rtx 1.7.1.116"."""
    return str(asked_table("native_operators.json")["asked"])


@cache
def asked_table(name: str) -> dict[str, Any]:
    """A file of this folder that a script wrote by asking TensorRT: "operators", and of which one it "asked"."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
