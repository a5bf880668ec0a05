"""Integers of ONNX in wider ones: what an operation gave is brought back into the range of its type, modulo 2**bits."""

from __future__ import annotations

from onnx import TensorProto

from trtsmith.converter.rewrite.types.emitter import Emitter
from trtsmith.converter.rewrite.types.legal_types import Integer

_MOD = 10
"""Opset in which ONNX got Mod, with the sign of the divisor for integers: what a residue needs."""


def wrapped(emit: Emitter, value: str, elem: int, range_: Integer) -> str:
    """`value`, of the type `elem` (int32 or int64), modulo 2**bits into the range.

    Exact also where `value` has itself wrapped around in its type, as 2**bits divides 2**32 and 2**64.
    """
    size = emit.constant(2**range_.bits, elem)
    if not range_.signed:
        return _residue(emit, value, size)
    half = emit.constant(2 ** (range_.bits - 1), elem)
    return emit("Sub", _residue(emit, emit("Add", value, half), size), half)


def _residue(emit: Emitter, value: str, size: str) -> str:
    """`value` modulo `size`, in [0, size)."""
    if emit.opset >= _MOD:
        return emit("Mod", value, size)
    # in (-size, size), then in (0, 2 * size), then what is asked for: right for a Div that truncates and one that floors
    first = _remainder(emit, value, size)
    return _remainder(emit, emit("Add", first, size), size)


def _remainder(emit: Emitter, value: str, size: str) -> str:
    return emit("Sub", value, emit("Mul", emit("Div", value, size), size))


def as_integer(emit: Emitter, value: str, elem: int, source: Integer | None, target: Integer) -> str:
    """A value of the type `elem`, whose ONNX range is `source` (None: a float or bool), in the legal type of `target`.

    Integers lose their higher bits, as ONNX's Cast says. Floats are truncated; beyond the target's range ONNX leaves the
    result open, and they wrap, as onnx.reference and onnxruntime on x86 do.
    """
    wide = TensorProto.INT64 if target.bits > 32 or target == Integer(32, False) else TensorProto.INT32
    if source is None:
        value = emit.cast(value, wide)
        done = elem == TensorProto.BOOL or target.bits == 64 or target == Integer(32, True)
        return value if done else wrapped(emit, value, wide, target)
    if elem not in (TensorProto.INT32, TensorProto.INT64):
        value, elem = emit.cast(value, TensorProto.INT32), TensorProto.INT32
    if target.bits == 64 or target.holds(source):
        return value if elem == wide else emit.cast(value, wide)
    if wide == TensorProto.INT64 and elem != wide:
        value, elem = emit.cast(value, wide), wide
    # in the wider type, so that a narrowing Cast meets only what fits: ONNX and TensorRT agree on that
    value = wrapped(emit, value, elem, target)
    return value if elem == wide else emit.cast(value, wide)
