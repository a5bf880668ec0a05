"""Fills in and runs ONNX function bodies that are kept as text.

A body is text in the syntax of onnx.parser, without the braces; @name@ in it stands for the value of a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

_PLACEHOLDER = re.compile(r'"(?:[^"\\]|\\.)*"|@(?P<field>\w+)@', re.DOTALL)
"""A string, which is left alone, or a place for the value of a field."""


def filled(body: str, fields: Mapping[str, Any]) -> str:
    """Fills the values of fields into the body."""

    def value(match: re.Match[str]) -> str:
        name = match["field"]
        return _literal(fields[name]) if name in fields else match[0]

    return _PLACEHOLDER.sub(value, body)


def wide(array: np.ndarray) -> np.ndarray:
    """Converts floating-point numbers of any type to float64; other elements stay."""
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def run_body(
    body: str, opset: int, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> dict[str, np.ndarray]:
    """Evaluates a body with onnx's reference evaluator in float64, including constants and casts.

    inputs: by name. outputs: their names.
    """
    from onnx.reference import ReferenceEvaluator

    function = onnx.parser.parse_function(
        f'<domain: "body", opset_import: ["" : {opset}]> body ({", ".join(inputs)}) => ({", ".join(outputs)}) '
        f"{{\n{body}\n}}"
    )
    _widen(function.node)
    given = {name: wide(array) for name, array in inputs.items()}
    results = ReferenceEvaluator(function).run(None, given, attributes={})
    return {name: wide(np.asarray(result)) for name, result in zip(outputs, results, strict=True)}


_NARROW = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def _widen(nodes: Iterable[onnx.NodeProto]) -> None:
    """Make float64 of every floating-point constant and of what is cast to: the evaluator mixes no types."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i in _NARROW:
                attribute.i = onnx.TensorProto.DOUBLE
            if attribute.HasField("t") and attribute.t.data_type in _NARROW:
                attribute.t.CopyFrom(_double(onnx.numpy_helper.to_array(attribute.t)))
            if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
                attribute.CopyFrom(onnx.helper.make_attribute("value", _double(np.asarray(value))))
            for graph in (attribute.g, *attribute.graphs):
                for tensor in graph.initializer:
                    if tensor.data_type in _NARROW:
                        name = tensor.name
                        tensor.CopyFrom(_double(onnx.numpy_helper.to_array(tensor)))
                        tensor.name = name
                _widen(graph.node)


def _double(array: np.ndarray) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(array.astype(np.float64))


def _literal(value: Any) -> str:
    """A field's value as onnx.parser reads it."""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
