"""Statements of a scatter along one axis, in parts that follow each other; rules/scatter_elements.py says what they do."""

from __future__ import annotations

from dataclasses import dataclass

from trtsmith.converter.rewrite.engine.opset_forms import reduce, slice_, unsqueeze
from trtsmith.converter.rewrite.rules.scatter.scatter_reductions import Part, Reduction


@dataclass(frozen=True)
class Scatter:
    """elements: whether ScatterElements takes the sizes. unique: whether no element gets two updates."""

    axis: int
    elements: bool
    unique: bool
    reduction: Reduction | None
    opset: int


def in_parts(scatter: Scatter, cuts: list[Part]) -> str:
    """`y0` from the data x0, `indices`, `coordinates` unless ScatterElements is used, and the updates x2."""
    lines, data = [], "x0"
    places = "indices" if scatter.elements else "coordinates"
    for number, (start, end) in enumerate(cuts):
        at, where = f"p{number}", ([start], [end], [scatter.axis], scatter.opset)
        lines.append(slice_(f"{at}_indices", "indices", *where))
        lines.append(slice_(f"{at}_updates", "x2", *where))
        if not scatter.elements:
            lines.append(slice_(f"{at}_coordinates", "coordinates", *where))
        result = "y0" if number == len(cuts) - 1 else f"{at}_data"
        lines.append(_part(scatter, at, data, f"{at}_{places}", result))
        data = result
    if not cuts:
        lines = ["p_indices = Identity (indices)", "p_updates = Identity (x2)"]
        lines.append(_part(scatter, "p", data, places, "y0"))
    return "\n".join(lines)


def _part(scatter: Scatter, at: str, data: str, places: str, result: str) -> str:
    where = f"<axis = {scatter.axis}> ({data}, {places}" if scatter.elements else f"({data}, {places}"
    gather, write = ("GatherElements", "ScatterElements") if scatter.elements else ("GatherND", "ScatterND")
    if scatter.reduction is None:
        return f"{result} = {write} {where}, {at}_updates)"
    return f"""
        {f"{at}_combined = Identity ({at}_updates)" if scatter.unique else _combined(scatter, scatter.reduction, at)}
        {at}_old = {gather} {where})
        {at}_new = {scatter.reduction.combine} ({at}_old, {at}_combined)
        {result} = {write} {where}, {at}_new)
    """


def coordinates(axis: int, rank: int, opset: int) -> str:
    """Along a new last dimension: the element's own position, but for the axis, where it is the index."""
    lines = ["indices_shape = Shape (indices)"]
    for at in range(rank):
        if at == axis:
            lines.append(f"part_{at} = Identity (indices)")
        else:
            others = [i for i in range(rank) if i != at]
            lines += [
                f"size_{at} = Gather <axis = 0> (indices_shape, number_{at})",
                f"count_{at} = Range (zero, size_{at}, one)",
                unsqueeze(f"column_{at}", f"count_{at}", others, opset),
                f"part_{at} = Expand (column_{at}, indices_shape)",
            ]
        lines.append(unsqueeze(f"row_{at}", f"part_{at}", [rank], opset))
    rows = ", ".join(f"row_{at}" for at in range(rank))
    return "\n".join((*lines, f"coordinates = Concat <axis = {rank}> ({rows})"))


def _combined(scatter: Scatter, reduction: Reduction, at: str) -> str:
    axis, opset = scatter.axis, scatter.opset
    return f"""
        {unsqueeze(f"{at}_targets", f"{at}_indices", [axis + 1], opset)}
        {unsqueeze(f"{at}_sources", f"{at}_indices", [axis], opset)}
        {unsqueeze(f"{at}_values", f"{at}_updates", [axis], opset)}
        {at}_same = Equal ({at}_targets, {at}_sources)
        {at}_counted = Where ({at}_same, {at}_values, neutral)
        {reduce(reduction.over, f"{at}_combined", f"{at}_counted", [axis + 1], opset, keepdims=False)}
    """
