"""Lists the operators that TensorRT's ONNX parser imports."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def native_operators() -> frozenset[str]:
    """Operators that TensorRT's parser imports, whatever their domain: it looks at the op_type only."""
    text = resources.files(__package__).joinpath("native_operators.json").read_text(encoding="utf-8")
    return frozenset(json.loads(text)["operators"])
