"""Emulates uint64 and uint32 operators in int64 that differ there: order, quotient, sign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx

from trtsmith.converter.rewrite.types import unsigned64
from trtsmith.importers.builder import Value

Handler = Callable[[onnx.NodeProto, Sequence[Value]], list[Value]]


_COMPARES = frozenset({"Greater", "Less", "GreaterOrEqual", "LessOrEqual"})
_ON_ALL = frozenset({"Max", "Min", "Clip"}) | _COMPARES
_GIVES_NUMBERS = frozenset({"Max", "Min", "Clip", "ReduceMax", "ReduceMin", "TopK", "Unique"})


def _in_order(node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
    """Operators that go by order: on values with their top bits flipped, which are flipped back."""
    return _moved(node, inputs, unsigned64.flipped, unsigned64.flipped)


def _near_zero(node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
    """The same for uint32 in the range of int32: onnxruntime 1.31, which verifies what is rewritten, takes int64 numbers
    from 2**31 to 2**32 - 1 for negative in Max, Min, Sign and Clip of more than one element.
    """
    return _moved(node, inputs, lambda value: value + -(2**31), lambda value: value + 2**31)


def _moved(
    node: onnx.NodeProto,
    inputs: Sequence[Value],
    there: Callable[[Value], Value],
    back: Callable[[Value], Value],
) -> list[Value]:
    changed = [
        there(value) if value.name and (node.op_type in _ON_ALL or i == 0) else value
        for i, value in enumerate(inputs)
    ]
    outputs = inputs[0].builder.copy(node, changed)
    if node.op_type in _GIVES_NUMBERS:
        outputs[0] = back(outputs[0])
    return outputs


def _divide(_node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
    return [unsigned64.quotient(*inputs)]


def _modulo(_node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
    return [unsigned64.remainder(*inputs)]


def _sign(_node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
    g = inputs[0].builder
    return [g.Cast(g.Cast(inputs[0], to="bool"), to="int64")]


def _same(_node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
    return [inputs[0].builder.Identity(inputs[0])]


def _reduce_sum(node: onnx.NodeProto, inputs: Sequence[Value]) -> list[Value]:
    """The sum of absolute values of numbers that have no sign."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.op_type = "ReduceSum"
    return inputs[0].builder.copy(copy, inputs)


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
