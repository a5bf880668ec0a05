"""Operators on uint64 and uint32 in int64 that are not the same there: by order, quotient, sign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import TensorProto as T

from trtsmith.converter.rewrite.types import unsigned64
from trtsmith.converter.rewrite.types.emitter import Emitter

Handler = Callable[[Emitter, onnx.NodeProto, Sequence[str]], list[str]]


_COMPARES = frozenset({"Greater", "Less", "GreaterOrEqual", "LessOrEqual"})
_ON_ALL = frozenset({"Max", "Min", "Clip"}) | _COMPARES
_GIVES_NUMBERS = frozenset({"Max", "Min", "Clip", "ReduceMax", "ReduceMin", "TopK", "Unique"})


def _in_order(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    """Operators that go by order: on values with their top bits flipped, which are flipped back."""
    return _moved(emit, node, inputs, unsigned64.flipped, unsigned64.flipped)


def _near_zero(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    """The same for uint32 in the range of int32: onnxruntime 1.31, which verifies what is rewritten, takes int64 numbers
    from 2**31 to 2**32 - 1 for negative in Max, Min, Sign and Clip of more than one element.
    """
    return _moved(emit, node, inputs, _down, _up)


def _down(emit: Emitter, value: str) -> str:
    return emit("Add", value, emit.integer(-(2**31)))


def _up(emit: Emitter, value: str) -> str:
    return emit("Add", value, emit.integer(2**31))


def _moved(
    emit: Emitter,
    node: onnx.NodeProto,
    inputs: Sequence[str],
    there: Callable[[Emitter, str], str],
    back: Callable[[Emitter, str], str],
) -> list[str]:
    changed = [
        there(emit, name) if name and (node.op_type in _ON_ALL or i == 0) else name
        for i, name in enumerate(inputs)
    ]
    outputs = emit.copied(node, changed)
    if node.op_type in _GIVES_NUMBERS:
        outputs[0] = back(emit, outputs[0])
    return outputs


def _divide(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    return [unsigned64.quotient(emit, *inputs)]


def _modulo(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    return [unsigned64.remainder(emit, *inputs)]


def _sign(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    return [emit.cast(emit.cast(inputs[0], T.BOOL), T.INT64)]


def _same(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    return [emit("Identity", inputs[0])]


def _reduce_sum(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    """The sum of absolute values of numbers that have no sign."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.op_type = "ReduceSum"
    return emit.copied(copy, inputs)


UNSIGNED_64: Mapping[str, Handler] = {
    **dict.fromkeys(
        (
            "ArgMax",
            "ArgMin",
            "Clip",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "Max",
            "Min",
            "ReduceMax",
            "ReduceMin",
            "TopK",
            "Unique",
        ),
        _in_order,
    ),
    "Abs": _same,
    "Div": _divide,
    "Mod": _modulo,
    "ReduceL1": _reduce_sum,
    "Sign": _sign,
}


UNSIGNED_32: Mapping[str, Handler] = {
    **dict.fromkeys(("Clip", "Max", "Min", "ReduceMax", "ReduceMin", "TopK"), _near_zero),
    "Sign": _sign,
}
