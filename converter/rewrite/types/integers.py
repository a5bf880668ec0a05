"""Holds ONNX integers in wider types, and wraps results to the range of their type, modulo 2**bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from trtsmith.converter.rewrite.types.legal_types import Integer
from trtsmith.importers.builder import Value
from trtsmith.importers.dtypes import numpy_dtype

_MOD = 10
"""Opset in which ONNX got Mod, with the sign of the divisor for integers: what a residue needs."""


def wrapped(value: Value, elem: int, range_: Integer) -> Value:
    """Reduces `value`, of the type `elem` (int32 or int64), modulo 2**bits into the range.

    Exact also where `value` has itself wrapped around in its type, as 2**bits divides 2**32 and 2**64.
    """
    number: Callable[[int], np.integer[Any]] = numpy_dtype(elem).type
    size = number(2**range_.bits)
    if not range_.signed:
        return _residue(value, size)
    half = number(2 ** (range_.bits - 1))
    return _residue(value + half, size) - half


def _residue(value: Value, size: np.integer[Any]) -> Value:
    """`value` modulo `size`, in [0, size)."""
    if value.builder.opset >= _MOD:
        return value.builder.Mod(value, size)
    # in (-size, size), then in (0, 2 * size), then what is asked for: right for a Div that truncates and one that floors
    first = value - value / size * size
    shifted = first + size
    return shifted - shifted / size * size


def as_integer(value: Value, elem: int, source: Integer | None, target: Integer) -> Value:
    """Converts a value of type `elem`, with ONNX range `source` (None: a float or bool), to the legal type of `target`.

    Integers lose their higher bits, as ONNX's Cast says. Floats are truncated; beyond the target's range ONNX leaves the
    result open, and they wrap, as onnx.reference and onnxruntime on x86 do.
    """
    cast = value.builder.Cast
    wide = TensorProto.INT64 if target.bits > 32 or target == Integer(32, False) else TensorProto.INT32
    if source is None:
        value = cast(value, to=wide)
        done = elem == TensorProto.BOOL or target.bits == 64 or target == Integer(32, True)
        return value if done else wrapped(value, wide, target)
    if elem not in (TensorProto.INT32, TensorProto.INT64):
        value, elem = cast(value, to=TensorProto.INT32), TensorProto.INT32
    if target.bits == 64 or target.holds(source):
        return value if elem == wide else cast(value, to=wide)
    if wide == TensorProto.INT64 and elem != wide:
        value, elem = cast(value, to=wide), wide
    # in the wider type, so that a narrowing Cast meets only what fits: ONNX and TensorRT agree on that
    value = wrapped(value, elem, target)
    return value if elem == wide else cast(value, to=wide)
