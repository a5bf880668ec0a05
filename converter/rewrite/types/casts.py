"""Writes Casts between ONNX's types where one of them is held in its legal type."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto as T

from trtsmith.converter.rewrite.types import unsigned64
from trtsmith.converter.rewrite.types.emitter import Emitter
from trtsmith.converter.rewrite.types.integers import as_integer
from trtsmith.converter.rewrite.types.legal_types import INTEGERS, SMALL_FLOATS, legal_type
from trtsmith.converter.rewrite.types.small_floats import rounded, rounded_to_power


@dataclass(frozen=True)
class Rounding:
    """Attributes of Cast and CastLike that matter for small floats."""

    saturate: bool = True
    mode: str = "up"


def converted(emit: Emitter, value: str, source: int, target: int, how: Rounding) -> str:
    """A value of the ONNX type `source` as one of the ONNX type `target`, each in its legal type.

    The same name, if nothing has to be done.
    """
    if source == target:
        return value
    if target == T.BOOL:
        return emit.cast(value, T.BOOL)
    if target in INTEGERS:
        return _to_integer(emit, value, source, target)
    if target in SMALL_FLOATS or target == T.FLOAT8E8M0:
        value = _to_float(emit, value, source, T.FLOAT)
        if target == T.FLOAT8E8M0:
            return rounded_to_power(emit, value, how.mode, saturate=how.saturate)
        return rounded(emit, value, SMALL_FLOATS[target], saturate=how.saturate)
    return _to_float(emit, value, source, target)


def _to_float(emit: Emitter, value: str, source: int, target: int) -> str:
    if source == T.UINT64:
        value, source = unsigned64.to_float(emit, value), T.FLOAT
    return value if legal_type(source) == legal_type(target) else emit.cast(value, legal_type(target))


def _to_integer(emit: Emitter, value: str, source: int, target: int) -> str:
    if source not in INTEGERS and source != T.BOOL and target == T.UINT64:
        return unsigned64.from_float(emit, _to_float(emit, value, source, T.FLOAT))
    value = as_integer(emit, value, legal_type(source), INTEGERS.get(source), INTEGERS[target])
    return emit.cast(value, T.INT8) if target == T.INT8 else value
