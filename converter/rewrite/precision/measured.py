"""Lists the operators that TensorRT builds in each reduced type, as scripts/reduced_types.py measured them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from trtsmith.converter.rewrite.precision.formats import Format


@cache
def _table() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath("measured_types.json").read_text(encoding="utf-8")
    table: Mapping[str, Any] = json.loads(text)
    return table


def refusal(op_type: str, fmt: Format) -> str:
    """ "" if TensorRT builds the operator in the type, else why it is left in float32."""
    entry = _table()["operators"].get(op_type)
    if entry is None:
        return f"no {fmt.name} of it was measured in TensorRT"
    return f"TensorRT does not build it in {fmt.name}" if entry[fmt.name] else ""
