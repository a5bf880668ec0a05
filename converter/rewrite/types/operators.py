"""Lists by operator the extra arithmetic that integers need in the legal type.

An operator that is in no table only moves values, or compares them: in the legal types it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import TensorProto as T

from trtsmith.converter.graph.operator_groups import MOVING, op_types
from trtsmith.converter.rewrite.types import unsigned64
from trtsmith.converter.rewrite.types.integers import wrapped
from trtsmith.converter.rewrite.types.legal_types import INTEGERS
from trtsmith.importers.builder import Value
from trtsmith.importers.contrib_types import TENSORRT_DOMAIN

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
        op_types(
            "ArgMax ArgMin Clip Greater GreaterOrEqual Less LessOrEqual Max Min ReduceMax ReduceMin "
            "TopK Unique"
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


LEAVES_RANGE = frozenset(
    op_types(
        "Abs Add CumProd CumSum Div Mul Neg Pow ReduceL1 ReduceLogSum ReduceProd ReduceSum "
        "ReduceSumSquare Sub Sum Gemm MatMul Einsum BitShift BitwiseNot ScatterElements ScatterND "
        "Range"
    )
)
"""Operators whose results can leave the range of an integer type; they are brought back into it."""

ADDS_UP = frozenset({"ScatterElements", "ScatterND"})
"""Of those, the ones that leave it with `reduction` add or mul only."""

IN_FLOAT = frozenset({"GlobalMaxPool", "MaxPool", "Resize", "Upsample", "GridSample", "MaxRoiPool"})
"""Operators that TensorRT has for floats only: integers of up to 16 bits are exact in float32."""

NOT_IN_INT8 = frozenset(
    op_types(
        "BitShift Clip CumProd CumSum Einsum Gemm MatMul Mod Pow Range ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceMean Shrink"
    )
)
"""Operators that TensorRT-RTX 1.7.1 does not take in int8; it takes the others that ONNX defines for it."""

MOVES = MOVING | {"Concat", "Tile"}
"""Operators that only move values: they leave a quantized type as it is."""

IN_ONNX_TYPES = frozenset(
    {
        "BitCast",
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
        "TRT_FP4DynamicQuantize",
        "TRT_MXFP8DequantizeLinear",
        "TRT_MXFP8DynamicQuantize",
    }
)
"""Operators that depend on the type itself: they keep their types, and have rules of their own, or are TensorRT's own."""

QUANTIZING_DOMAINS = ("", TENSORRT_DOMAIN)
"""Domains in which these names are theirs."""

TYPE_ATTRIBUTES = frozenset({"dtype", "output_datatype", "softmax_precision", "stash_type", "to"})
"""Attributes that hold an element type."""


def compute(node: onnx.NodeProto, inputs: Sequence[Value], elem: int) -> list[Value]:
    """Computes the operator on legal types. elem: its ONNX type. Omitted outputs have no name."""
    if elem == T.UINT64 and node.op_type in UNSIGNED_64:
        return UNSIGNED_64[node.op_type](node, inputs)
    if elem == T.UINT32 and node.op_type in UNSIGNED_32:
        return UNSIGNED_32[node.op_type](node, inputs)
    outputs = inputs[0].builder.copy(node, inputs)
    if elem not in INTEGERS or node.op_type not in LEAVES_RANGE or elem == T.UINT64:
        return outputs
    reduction = next((a.s for a in node.attribute if a.name == "reduction"), b"none")
    if node.op_type in ADDS_UP and reduction not in (b"add", b"mul"):
        return outputs
    wide = T.INT64 if elem == T.UINT32 else T.INT32
    return [wrapped(outputs[0], wide, INTEGERS[elem]), *outputs[1:]]
