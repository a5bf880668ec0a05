"""Finds products of quantized integers, whose sums are exact in float32 but exceed float16's range."""

from __future__ import annotations

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.converter.rewrite.types.legal_types import INTEGERS

WHOLE_SUM = "it adds up products of whole numbers, exactly in float32"

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm"})

_STAY_WHOLE = frozenset(
    {
        *(
            "Add",
            "Cast",
            "Clip",
            "Concat",
            "Expand",
            "Flatten",
            "Gather",
            "Identity",
            "Max",
            "Min",
            "Mul",
            "Neg",
            "Pad",
        ),
        *("Reshape", "ReverseSequence", "Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
    }
)
"""Operators that make whole numbers of whole numbers."""

_LONGEST = 12
"""Nodes between the rounding and the product: rules write no more than eight."""


def sums_whole_numbers(node: Node) -> bool:
    """Whether the first operand is of whole numbers, by a rounding or by its type, and the second a constant of them."""
    if node.domain or node.op_type not in _PRODUCTS or len(node.inputs) < 2:
        return False
    if not node.scope.is_constant(node.inputs[1]):
        return False
    return _is_whole(node.scope, node.inputs[0], _LONGEST) and _constant_whole(node.scope, node.inputs[1])


def _is_whole(scope: Scope, name: str, left: int) -> bool:
    if scope.is_constant(name):
        return _constant_whole(scope, name)
    holder = scope.holder(name)
    maker = holder.producers.get(name) if holder is not None else None
    if holder is None or maker is None or maker.domain or not left:
        return False
    if maker.op_type == "Round" or (
        maker.op_type == "Cast" and holder.elem_type(maker.inputs[0]) in INTEGERS
    ):
        return True
    if maker.op_type not in _STAY_WHOLE:
        return False
    read = maker.inputs if maker.op_type in _OF_ALL else maker.inputs[:1]
    return all(_is_whole(holder, one, left - 1) for one in read if one)


_OF_ALL = frozenset({"Add", "Concat", "Max", "Min", "Mul", "Sub"})
"""Those whose result is of the numbers of every input."""


def _constant_whole(scope: Scope, name: str) -> bool:
    array = scope.constant(name)
    return array is not None and array.dtype.kind == "f" and bool((array == array.round()).all())
