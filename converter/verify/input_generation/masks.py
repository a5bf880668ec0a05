"""Recognises masks: 0 and 1, numbers added to attention scores, or lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from trtsmith.converter.verify.input_generation.flow_view import InputOperand
from trtsmith.converter.verify.input_generation.indices import Rule, compared
from trtsmith.converter.verify.input_generation.meaning import InputValues, ValueKind

_LARGE = 9000.0
"""What exporters multiply masks by is 10,000 or more; factors of time steps are 1,000."""

_FAR = -1000.0
"""Scores at or below this are switched off."""

_MOVED = frozenset({"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Expand"})


def _mask(operand: InputOperand, counts: bool = True) -> InputValues:
    """counts: whether 1 stands for an element that counts where the node reads it."""
    upright = operand.flow.scale > 0
    return InputValues(ValueKind.MASK, operand.reads("a mask"), counts=int(counts == upright))


def _flags(operand: InputOperand) -> bool:
    """Whether the value is 0 and 1 where the input is, or the other way round."""
    flow = operand.flow
    return flow.alone and (flow.scale, flow.shift) in ((1.0, 0.0), (-1.0, 1.0))


def _cast(operand: InputOperand) -> InputValues | None:
    """What is cast to a boolean is a mask."""
    to_bool = operand.attribute("to", 0) == 9
    return _mask(operand) if to_bool and _flags(operand) else None


def _compared_with_number(operand: InputOperand) -> InputValues | None:
    """Whole numbers that are compared with 0 or 1."""
    number = operand.constant(1 - operand.position)
    if number is None or number.size != 1:
        return compared(operand)
    if operand.is_float or not operand.flow.plain or operand.dtype(operand.position) == "bool":
        return None
    c = float(number.reshape(-1)[0])
    return InputValues(ValueKind.MASK, operand.reads("a mask")) if 0.0 <= c <= 1.0 else None


def _chosen(operand: InputOperand) -> InputValues | None:
    """A condition of ONNX's Where that switches scores off on one side."""
    if not _flags(operand):
        return None
    for position, counts in ((1, False), (2, True)):
        number = operand.constant(position)
        if number is not None and number.size and bool(np.all(number.astype(np.float64) <= _FAR)):
            return _mask(operand, counts)
    return None


def _multiplied(operand: InputOperand) -> InputValues | None:
    """A mask that is multiplied, as in (1 - mask) * -10000."""
    number = operand.constant(1 - operand.position)
    if number is None or number.size != 1 or not _flags(operand):
        return None
    c = float(number.reshape(-1)[0])
    return _mask(operand, counts=c > 0) if abs(c) >= _LARGE else None


def added(operand: InputOperand) -> InputValues | None:
    """Describes a mask of numbers that are added to scores."""
    if not operand.flow.plain:
        return None
    return InputValues(ValueKind.ADDED_MASK, operand.reads("what is added to scores"))


def _added(operand: InputOperand) -> InputValues | None:
    """An addition to a product that a Softmax reads: attention."""
    name = operand.name(1 - operand.position)
    maker = operand.known.makers.get(name)
    if maker is not None and maker.op_type in ("Div", "Mul"):  # by the root of the head's size
        maker = operand.known.makers.get(maker.input[0])
    if maker is None or maker.op_type not in ("Einsum", "MatMul") or not operand.is_float:
        return None
    return added(operand) if "Softmax" in _readers(operand) else None


def _readers(operand: InputOperand) -> Iterator[str]:
    """Operators that read the node's result, as far as its elements are only moved."""
    queue, seen = [operand.node.output[0]], 0
    while queue and seen < 16:
        seen += 1
        for node in operand.known.readers.get(queue.pop(), ()):
            yield node.op_type
            if node.op_type in _MOVED:
                queue.append(node.output[0])


def _attention(operand: InputOperand) -> InputValues | None:
    return added(operand) if operand.is_float else _mask(operand) if _flags(operand) else None


def lengths_or_mask(operand: InputOperand) -> InputValues | None:
    """Describes onnxruntime's key padding: one length for each sequence, or a mask of keys."""
    shape = operand.shape(operand.position)
    if shape is None or not operand.flow.plain:
        return None
    if len(shape) == 1:
        keys = operand.size(0, 1)
        return (
            None if keys is None else InputValues(ValueKind.INDEX, operand.reads("lengths"), 1, max(1, keys))
        )
    return _mask(operand)


def _kept(operand: InputOperand) -> InputValues | None:
    """Attention: how many keys of each sequence are real."""
    keys = operand.size(1, -2)
    if keys is None or not operand.flow.plain:
        return None
    return InputValues(ValueKind.INDEX, operand.reads("lengths"), 1, max(1, keys))


RULES: Mapping[str, Mapping[int, Rule]] = {
    "Add": {0: _added, 1: _added},
    "Attention": {3: _attention, 6: _kept},
    "Cast": {0: _cast},
    "Compress": {1: _mask},
    "Equal": {0: _compared_with_number, 1: _compared_with_number},
    "Greater": {0: _compared_with_number, 1: _compared_with_number},
    "Less": {0: _compared_with_number, 1: _compared_with_number},
    "Mul": {0: _multiplied, 1: _multiplied},
    "Where": {0: _chosen},
}
"""By standard operator and input position."""
