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
    gather, write = ("GatherElements", "ScatterElements") if scatter.elements else ("GatherND", "ScatterND")
    along: dict[str, Any] = {"axis": scatter.axis} if scatter.elements else {}
    if scatter.reduction is not None:
        if scatter.unique:
            combined = w.do("Identity", updates)
        else:
            combined = _combined(w, scatter, scatter.reduction, indices, updates)
        old = w.do(gather, data, places, **along)
        updates = w.do(scatter.reduction.combine, old, combined)
    return w.do(write, data, places, updates, result=result, **along)


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
