"""Writes a scatter along one axis, in parts that follow each other; rules/scatter/scatter_elements.py says what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import Part, ScatterReduction


@dataclass(frozen=True)
class Scatter:
    """elements: whether ScatterElements takes the sizes. unique: whether no element gets two updates. dtype: of the data."""

    axis: int
    elements: bool
    unique: bool
    reduction: ScatterReduction | None
    dtype: str


def write_in_parts(w: Writer, scatter: Scatter, cuts: list[Part], indices: str, places: str) -> None:
    """`y0` from the data x0 and the updates x2. places: coordinates, or the indices if ScatterElements is used."""
    data = "x0"
    for number, (start, end) in enumerate(cuts):
        values = {
            name: w.slice_(name, [start], [end], [scatter.axis])
            for name in dict.fromkeys((indices, "x2", places))
        }
        result = "y0" if number == len(cuts) - 1 else ""
        data = _part(w, scatter, data, values[indices], values["x2"], values[places], result)
    if not cuts:
        indices_kept, updates = w.do("Identity", indices), w.do("Identity", "x2")
        _part(w, scatter, data, indices_kept, updates, places, "y0")


def _part(
    w: Writer, scatter: Scatter, data: str, indices: str, updates: str, places: str, result: str
) -> str:
    gather = "GatherElements" if scatter.elements else "GatherND"
    along: dict[str, Any] = {"axis": scatter.axis} if scatter.elements else {}
    if scatter.reduction is not None:
        if scatter.unique:
            combined = w.do("Identity", updates)
        else:
            combined = _combined(w, scatter, scatter.reduction, indices, updates)
        old = w.do(gather, data, places, **along)
        updates = w.do(scatter.reduction.combine, old, combined)
    if not scatter.elements:
        return write_tuples(w, data, places, updates, scatter.axis, result)
    return w.do("ScatterElements", data, places, updates, result=result, **along)


def write_tuples(w: Writer, data: str, places: str, updates: str, axis: int, result: str) -> str:
    """ScatterND of an update for each tuple of indices, none of them negative. axis: of the data, which a tuple's number for
    it decides, and of the updates, along which the tuples are counted.

    Where sizes are decided when the engine runs, the data gets as many more slices along the axis as there are updates, and
    they are cut off again: TensorRT-RTX 1.6.1 writes only as many updates as the data has slices then, without a word
    (on an H200; with fixed sizes it writes them all).
    """
    shapes = [w.node.shape(index) for index in range(3)]
    if all(shape is not None and None not in shape for shape in shapes):
        return w.do("ScatterND", data, places, updates, result=result)
    rank, dtype = w.node.rank(0), w.node.dtype(0)
    assert rank and dtype  # the rules refuse others
    length, more = w.size(data, axis), w.size(updates, axis)
    around = [w.size(data, at) if at != axis else more for at in range(rank)]
    rest = w.do("Expand", w.number(0, dtype), w.concat(around))
    written = w.do("ScatterND", w.concat([data, rest], axis), places, updates)
    return w.do("Slice", written, w.ints(0), length, w.ints(axis), result=result)


def coordinates(w: Writer, indices: str, axis: int, rank: int) -> str:
    """Along a new last dimension: the element's own position, but for the axis, where it is the index."""
    shape = w.do("Shape", indices)
    rows = []
    for at in range(rank):
        if at == axis:
            part = w.do("Identity", indices)
        else:
            size = w.do("Gather", shape, np.array(at), axis=0)
            column = w.unsqueeze(
                w.do("Range", np.array(0), size, np.array(1)), [i for i in range(rank) if i != at]
            )
            part = w.do("Expand", column, shape)
        rows.append(w.unsqueeze(part, [rank]))
    return w.concat(rows, rank)


def _combined(w: Writer, scatter: Scatter, reduction: ScatterReduction, indices: str, updates: str) -> str:
    axis = scatter.axis
    same = w.do("Equal", w.unsqueeze(indices, [axis + 1]), w.unsqueeze(indices, [axis]))
    counted = w.do("Where", same, w.unsqueeze(updates, [axis]), reduction.neutral(scatter.dtype))
    return w.reduce(reduction.over, counted, [axis + 1], keepdims=False)
