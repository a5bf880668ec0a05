"""Writes Casts between ONNX types of which one is held in its legal type."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto as T

from trtsmith.converter.rewrite.types import unsigned64
from trtsmith.converter.rewrite.types.integers import as_integer
from trtsmith.converter.rewrite.types.legal_types import INTEGERS, SMALL_FLOATS, legal_type
from trtsmith.converter.rewrite.types.small_floats import rounded, rounded_to_power
from trtsmith.importers.builder import Value


@dataclass(frozen=True)
class Rounding:
    """Attributes of Cast and CastLike that matter for small floats."""

    saturate: bool = True
    mode: str = "up"


def converted(value: Value, source: int, target: int, how: Rounding) -> Value:
    """Converts a value of the ONNX type `source` to the ONNX type `target`, each in its legal type.

    The same value, if nothing has to be done.
    """
    if source == target:
        return value
    if target == T.BOOL:
        return value.builder.Cast(value, to=T.BOOL)
    if target in INTEGERS:
        return _to_integer(value, source, target)
    if target in SMALL_FLOATS or target == T.FLOAT8E8M0:
        value = _to_float(value, source, T.FLOAT)
        if target == T.FLOAT8E8M0:
            return rounded_to_power(value, how.mode, saturate=how.saturate)
        return rounded(value, SMALL_FLOATS[target], saturate=how.saturate)
    return _to_float(value, source, target)


def _to_float(value: Value, source: int, target: int) -> Value:
    if source == T.UINT64:
        value, source = unsigned64.to_float(value), T.FLOAT
    return (
        value
        if legal_type(source) == legal_type(target)
        else value.builder.Cast(value, to=legal_type(target))
    )


def _to_integer(value: Value, source: int, target: int) -> Value:
    if source not in INTEGERS and source != T.BOOL and target == T.UINT64:
        return unsigned64.from_float(_to_float(value, source, T.FLOAT))
    value = as_integer(value, legal_type(source), INTEGERS.get(source), INTEGERS[target])
    return value.builder.Cast(value, to=T.INT8) if target == T.INT8 else value
