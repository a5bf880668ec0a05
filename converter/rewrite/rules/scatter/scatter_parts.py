"""Writes a scatter along one axis in consecutive parts; rules/scatter/scatter_elements.py explains the method."""

from __future__ import annotations

from dataclasses import dataclass

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import Part, ScatterReduction


@dataclass(frozen=True)
class Scatter:
    """A scatter along one axis. elements: whether ScatterElements takes the sizes. unique: whether no element gets two
    updates. dtype: of the data.
    """

    axis: int
    elements: bool
    unique: bool
    reduction: ScatterReduction | None
    dtype: str


def scattered(w: Writer, scatter: Scatter, cuts: list[Part], indices: Value, places: Value) -> Value:
    """Writes the updates (input 2) into the data (input 0). places: coordinates, or the indices if ScatterElements
    is used.
    """
    data, updates = w.x[0], w.x[2]
    if not cuts:
        return _part(w, scatter, data, indices, updates, places)
    for start, end in cuts:
        kept, new = (w.slice(value, [start], [end], [scatter.axis]) for value in (indices, updates))
        at = kept if places is indices else w.slice(places, [start], [end], [scatter.axis])
        data = _part(w, scatter, data, kept, new, at)
    return data


def _part(w: Writer, scatter: Scatter, data: Value, indices: Value, updates: Value, places: Value) -> Value:
    gather = "GatherElements" if scatter.elements else "GatherND"
    along = {"axis": scatter.axis} if scatter.elements else {}
    if scatter.reduction is not None:
        if not scatter.unique:
            updates = _combined(w, scatter, scatter.reduction, indices, updates)
        updates = w.write(scatter.reduction.combine, w.write(gather, data, places, **along), updates)
    if not scatter.elements:
        return scattered_tuples(w, data, places, updates, scatter.axis)
    return w.ScatterElements(data, places, updates, axis=scatter.axis)


def scattered_tuples(w: Writer, data: Value, places: Value, updates: Value, axis: int) -> Value:
    """Writes ScatterND of one update per index tuple, none negative. axis: the data's scattered axis, which is also the axis
    of updates that counts the tuples.

    Where sizes are decided when the engine runs, the data gets as many more slices along the axis as there are updates, and
    they are cut off again: TensorRT-RTX 1.6.1 writes only as many updates as the data has slices then, without a word
    (on an H200; with fixed sizes it writes them all).
    """
    shapes = [w.node.shape(index) for index in range(3)]
    if all(shape is not None and None not in shape for shape in shapes):
        return w.ScatterND(data, places, updates)
    rank, dtype = w.node.rank(0), w.node.dtype(0)
    assert rank and dtype  # the rules refuse others
    length, more = w.size(data, axis), w.size(updates, axis)
    around = [w.size(data, at) if at != axis else more for at in range(rank)]
    rest = w.Expand(w.number(0, dtype), w.Concat(*around, axis=0))
    written = w.ScatterND(w.Concat(data, rest, axis=axis), places, updates)
    return w.Slice(written, [0], length, [axis])


def coordinates(w: Writer, indices: Value, axis: int, rank: int) -> Value:
    """Computes each element's coordinates in a new last dimension, with the axis coordinate taken from the indices."""
    shape = w.Shape(indices)
    rows = []
    for at in range(rank):
        if at == axis:
            part = indices
        else:
            size = w.Gather(shape, at, axis=0)
            column = w.unsqueeze(w.Range(0, size, 1), [i for i in range(rank) if i != at])
            part = w.Expand(column, shape)
        rows.append(w.Unsqueeze(part, axes=[rank]))
    return w.Concat(*rows, axis=rank)


def _combined(
    w: Writer, scatter: Scatter, reduction: ScatterReduction, indices: Value, updates: Value
) -> Value:
    axis = scatter.axis
    same = w.Equal(w.Unsqueeze(indices, axes=[axis + 1]), w.Unsqueeze(indices, axes=[axis]))
    counted = w.Where(same, w.Unsqueeze(updates, axes=[axis]), reduction.neutral(scatter.dtype))
    return w.reduce(reduction.over, counted, [axis + 1], keepdims=False)
