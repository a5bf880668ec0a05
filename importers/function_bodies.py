"""Fills in and runs bodies of ONNX functions that are kept as text.

A body is text in the syntax of onnx.parser, without the braces; @name@ in it stands for the value of a field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx


def filled(body: str, fields: Mapping[str, Any]) -> str:
    """The body with the values of its fields."""
    for name, value in fields.items():
        body = body.replace(f"@{name}@", _literal(value))
    return body


def wide(array: np.ndarray) -> np.ndarray:
    """Floating-point numbers of any type as float64; other elements as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def run_body(
    body: str, opset: int, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> dict[str, np.ndarray]:
    """What onnx's own evaluator makes of a body, computed in float64 as far as the body lets it. Raises what that raises.

    inputs: by name. outputs: their names.
    """
    from onnx.reference import ReferenceEvaluator

    function = onnx.parser.parse_function(
        f'<domain: "body", opset_import: ["" : {opset}]> body ({", ".join(inputs)}) => ({", ".join(outputs)}) '
        f"{{\n{body}\n}}"
    )
    given = {name: wide(array) for name, array in inputs.items()}
    results = ReferenceEvaluator(function).run(None, given, attributes={})
    return {name: wide(np.asarray(result)) for name, result in zip(outputs, results, strict=True)}


def _literal(value: Any) -> str:
    """A field's value as onnx.parser reads it."""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
