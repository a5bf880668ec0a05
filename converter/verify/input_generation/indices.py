"""Limits indices and lengths to the sizes of the tensors that they address."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from trtsmith.converter.verify.input_generation.flow_view import InputOperand
from trtsmith.converter.verify.input_generation.meaning import InputValues, ValueKind

ADDENDS = 4
"""How many inputs an index may be computed from, as y * width + x is."""

Rule = Callable[[InputOperand], InputValues | None]


def of_table(table: int, axis: int | None = None, *, distinct: bool = False) -> Rule:
    """Limits indices into the input `table` along the axis (None: the node's attribute, 0 by default). Unknown sizes give 0.

    distinct: two that are equal would write to one place, in an order that ONNX leaves open.
    """

    def rule(operand: InputOperand) -> InputValues | None:
        along = int(operand.attribute("axis", 0)) if axis is None else axis
        once = along if distinct and operand.attribute("reduction", b"none") == b"none" else None
        return _index(operand, operand.size(table, along) or 1, distinct=once)

    return rule


def _index(
    operand: InputOperand, rows: int, distinct: int | None = None, what: str = "indices"
) -> InputValues | None:
    """0 to rows - 1 where the node reads them, before what was scaled and added on the way."""
    if operand.flow.scale < 1.0:
        return None
    ends = operand.flow.before(0, rows - 1 if operand.flow.alone else (rows - 1) // ADDENDS)
    low, high = (float(max(0, limit)) for limit in (math.ceil(ends[0]), math.floor(ends[1])))
    return InputValues(ValueKind.INDEX, operand.reads(what), low, max(low, high), distinct=distinct)


def _tuples(table: int, distinct: bool) -> Rule:
    """GatherND and ScatterND: the last axis holds one index for each of the table's axes, batch axes left out."""

    def rule(operand: InputOperand) -> InputValues | None:
        shape, indices = operand.shape(table), operand.shape(1)
        if not operand.flow.plain or shape is None or not indices or indices[-1] is None:
            return None
        first = int(operand.attribute("batch_dims", 0))
        sizes = shape[first : first + indices[-1]]
        if len(sizes) != indices[-1]:
            return None
        once = -1 if distinct and operand.attribute("reduction", b"none") == b"none" else None
        bounds = tuple(size or 1 for size in sizes)
        source, moved = (
            [size or 0 for size in one]
            for one in (operand.known.shapes.get(operand.flow.source, ()), indices)
        )
        if source[-1:] != moved[-1:] or math.prod(source) != math.prod(moved):
            return _index(operand, min(bounds))  # the input's last axis is not that of the tuples
        return InputValues(ValueKind.INDEX, operand.reads("tuples of indices"), bounds=bounds, distinct=once)

    return rule


def _classes(operand: InputOperand) -> InputValues | None:
    """OneHot: below the depth."""
    depth = operand.constant(1)
    return None if depth is None or depth.size != 1 else _index(operand, max(1, int(depth.reshape(-1)[0])))


def _lengths(table: int, axis: int) -> Rule:
    """Lengths of sequences: 1 to the size of that axis."""

    def rule(operand: InputOperand) -> InputValues | None:
        size = operand.size(table, axis)
        if size is None or not operand.flow.plain:
            return None
        return InputValues(ValueKind.INDEX, operand.reads("lengths"), 1, max(1, size))

    return rule


def _reversed(operand: InputOperand) -> InputValues | None:
    return _lengths(0, int(operand.attribute("time_axis", 0)))(operand)


def _recurrent(operand: InputOperand) -> InputValues | None:
    return _lengths(0, 1 if operand.attribute("layout", 0) else 0)(operand)


def _shifts(operand: InputOperand) -> InputValues | None:
    """BitShift: fewer places than the type has bits."""
    bits = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}.get(operand.dtype(1), 8)
    return _index(operand, bits, what="places to shift by")


def _written(operand: InputOperand) -> InputValues | None:
    """TensorScatter: where an update begins that has to fit into the cache."""
    axis = int(operand.attribute("axis", -2))
    cache, update = operand.size(0, axis), operand.size(1, axis)
    if cache is None or update is None:
        return None
    return _index(operand, max(1, cache - update + 1), what="where updates begin")


def _compared(operand: InputOperand) -> InputValues | None:
    """Whole numbers compared with 0, 1, 2, ... are lengths of sequences; masks are made of them so."""
    other = 1 - operand.position
    shape = operand.shape(other)
    sizes = [size for size in shape or () if size is not None]
    if operand.is_float or not operand.flow.plain or not sizes or math.prod(sizes) < 2:
        return None
    if len(sizes) != len(shape or ()) or max(sizes) != math.prod(sizes):
        return None
    if operand.known.makers.get(operand.name(other)) is None and operand.constant(other) is None:
        return None  # another input
    return InputValues(ValueKind.INDEX, operand.reads("lengths"), 1, max(sizes))


RULES: Mapping[str, Mapping[int, Rule]] = {
    "BitShift": {1: _shifts},
    "GRU": {4: _recurrent},
    "Gather": {1: of_table(0)},
    "GatherElements": {1: of_table(0)},
    "GatherND": {1: _tuples(0, distinct=False)},
    "GreaterOrEqual": {0: _compared, 1: _compared},
    "LSTM": {4: _recurrent},
    "LessOrEqual": {0: _compared, 1: _compared},
    "NegativeLogLikelihoodLoss": {1: of_table(0, 1)},
    "OneHot": {0: _classes},
    "RNN": {4: _recurrent},
    "ReverseSequence": {1: _reversed},
    "RotaryEmbedding": {3: of_table(1, 0)},
    "Scatter": {1: of_table(0, distinct=True)},
    "ScatterElements": {1: of_table(0, distinct=True)},
    "ScatterND": {1: _tuples(0, distinct=True)},
    "SoftmaxCrossEntropyLoss": {1: of_table(0, 1)},
    "TensorScatter": {2: _written},
}
"""By standard operator and input position."""

CONTRIB_RULES: Mapping[str, Mapping[int, Rule]] = {
    "EmbedLayerNormalization": {0: of_table(2, 0), 1: of_table(4, 0), 8: of_table(3, 0)},
    "RotaryEmbedding": {1: of_table(2, 0)},
}
"""By operator of onnxruntime's."""

compared = _compared
