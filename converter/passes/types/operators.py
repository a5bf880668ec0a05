"""What operators do to carried values beyond what they do to the carriers: tables by operator.

An operator that is in no table only moves values, or compares them: in the carriers it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import TensorProto as T

from converter.passes.types import unsigned64
from converter.passes.types.carriers import INTEGERS
from converter.passes.types.emitter import Emitter
from converter.passes.types.integers import wrapped

LEAVES_RANGE = frozenset(
    {
        "Abs",
        "Add",
        "CumProd",
        "CumSum",
        "Div",
        "Mul",
        "Neg",
        "Pow",
        "ReduceL1",
        "ReduceLogSum",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Sub",
        "Sum",
        "Gemm",
        "MatMul",
        "Einsum",
        "BitShift",
        "BitwiseNot",
        "ScatterElements",
        "ScatterND",
        "Range",
    }
)
"""Operators whose results can leave the range of an integer type; they are brought back into it."""

ADDS_UP = frozenset({"ScatterElements", "ScatterND"})
"""Of those, the ones that leave it with `reduction` add or mul only."""

IN_FLOAT = frozenset({"GlobalMaxPool", "MaxPool", "Resize", "Upsample", "GridSample", "MaxRoiPool"})
"""Operators that TensorRT has for floats only: integers of up to 16 bits are exact in float32."""

NOT_IN_INT8 = frozenset(
    {
        "BitShift",
        "Clip",
        "CumProd",
        "CumSum",
        "Einsum",
        "Gemm",
        "MatMul",
        "Mod",
        "Pow",
        "Range",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "Shrink",
    }
)
"""Operators that TensorRT-RTX 1.7.1 does not take in int8; it takes the others that ONNX defines for it."""

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
    }
)
"""Operators to which the type itself is what counts: they keep their types, and have rules of their own."""

TYPE_ATTRIBUTES = frozenset({"dtype", "output_datatype", "softmax_precision", "stash_type", "to"})
"""Attributes that hold an element type."""


def compute(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str], elem: int) -> list[str]:
    """The node's operator on carriers; `elem` is the ONNX type of its numbers. "" for outputs that are left out."""
    if elem == T.UINT64 and node.op_type in _UNSIGNED_64:
        return _UNSIGNED_64[node.op_type](emit, node, inputs)
    if elem == T.UINT32 and node.op_type in _UNSIGNED_32:
        return _UNSIGNED_32[node.op_type](emit, node, inputs)
    outputs = copied(emit, node, inputs)
    if elem not in INTEGERS or node.op_type not in LEAVES_RANGE or elem == T.UINT64:
        return outputs
    reduction = next((a.s for a in node.attribute if a.name == "reduction"), b"none")
    if node.op_type in ADDS_UP and reduction not in (b"add", b"mul"):
        return outputs
    wide = T.INT64 if elem == T.UINT32 else T.INT32
    return [wrapped(emit, outputs[0], wide, INTEGERS[elem]), *outputs[1:]]


def copied(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    """The same node on other inputs; fresh outputs."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    outputs = [emit.fresh(node.op_type) if name else "" for name in node.output]
    copy.input.extend(inputs)
    copy.output.extend(outputs)
    emit.nodes.append(copy)
    return outputs


Handler = Callable[[Emitter, onnx.NodeProto, Sequence[str]], list[str]]


_COMPARES = frozenset({"Greater", "Less", "GreaterOrEqual", "LessOrEqual"})
_ON_ALL = frozenset({"Max", "Min", "Clip"}) | _COMPARES
_GIVES_NUMBERS = frozenset({"Max", "Min", "Clip", "ReduceMax", "ReduceMin", "TopK", "Unique"})


def _in_order(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    """Operators that go by order: on values with their top bits flipped, which are flipped back."""
    return _shifted(emit, node, inputs, -(2**63), -(2**63))


def _near_zero(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
    """The same for uint32 in the range of int32: onnxruntime 1.31, which verifies what is rewritten, takes int64 numbers
    from 2**31 to 2**32 - 1 for negative in Max, Min, Sign and Clip of more than one element.
    """
    return _shifted(emit, node, inputs, -(2**31), 2**31)


def _shifted(emit: Emitter, node: onnx.NodeProto, inputs: Sequence[str], there: int, back: int) -> list[str]:
    changed = [
        emit("Add", name, emit.integer(there)) if name and (node.op_type in _ON_ALL or i == 0) else name
        for i, name in enumerate(inputs)
    ]
    outputs = copied(emit, node, changed)
    if node.op_type in _GIVES_NUMBERS:
        outputs[0] = emit("Add", outputs[0], emit.integer(back))
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
    return copied(emit, copy, inputs)


_UNSIGNED_64: Mapping[str, Handler] = {
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


_UNSIGNED_32: Mapping[str, Handler] = {
    **dict.fromkeys(("Clip", "Max", "Min", "ReduceMax", "ReduceMin", "TopK"), _near_zero),
    "Sign": _sign,
}
