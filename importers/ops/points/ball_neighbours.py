"""Finds the first points within a radius of others: ball query (Qi et al., PointNet++, arXiv 1706.02413, 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Arrays,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
)
from trtsmith.importers.ops.points._clouds import (
    POINTS,
    QUERIES,
    by_axis,
    cloud_faults,
    eight_clouds,
    lattice,
    pairs_work,
    spoilt_pair,
    squared_distances,
    squares_from,
    three_axes,
)


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, queries, _ = shapes["queries"]
    return {"counts": (batch, queries), "indices": (batch, queries, fields["neighbours"])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    return [*cloud_faults(shapes), *three_axes(shapes)]


def _radii(fields: Fields) -> tuple[np.float32, np.float32]:
    """Their squares, in float32 as the kernels have them."""
    inner, outer = np.float32(fields["inner_radius"]), np.float32(fields["radius"])
    return inner * inner, outer * outer


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One query after the other."""
    points, queries = by_axis(inputs["points"]), inputs["queries"].astype(np.float64)
    counts = np.zeros(queries.shape[:2], np.int32)
    indices = np.zeros((*counts.shape, fields["neighbours"]), np.int32)
    inner, outer = _radii(fields)
    with np.errstate(invalid="ignore"):
        for b, m in np.ndindex(*counts.shape):
            squares = squares_from(queries[b, m], points[b])
            found = np.flatnonzero((squares < outer) & ((squares >= inner) | (squares == 0)))
            found = found[: fields["neighbours"]]
            counts[b, m] = len(found)
            indices[b, m] = found[0] if found.size else 0
            indices[b, m, : len(found)] = found
    return {"counts": counts, "indices": indices}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Points in range are numbered within their ball, and those with a place are scattered to it."""
    import torch

    points, queries = inputs["points"].double(), inputs["queries"].double()
    inner, outer = map(float, _radii(fields))
    squares = (queries[:, :, None] - points[:, None]).square().sum(3)
    inside = (squares < outer) & ((squares >= inner) | (squares == 0))
    most = fields["neighbours"]
    place = (inside.cumsum(2) - 1).clamp(max=most).masked_fill(~inside, most)  # place `most` is nobody's
    numbers = torch.arange(points.shape[1], device=points.device).expand(inside.shape)
    indices = numbers.new_zeros(*inside.shape[:2], most + 1).scatter(2, place, numbers)[:, :, :most]
    counts = inside.sum(2).clamp(max=most)
    spare = torch.arange(most, device=points.device) >= counts[:, :, None]
    return counts.int(), torch.where(spare, indices[:, :, :1], indices).int()


def _expand(expansion: Expansion) -> tuple[Value, Value]:
    """The least of the numbers of points in range, where those out of it have the number behind the last."""
    g = Builder(expansion.opset)
    most = expansion.fields["neighbours"]
    inner, outer = _radii(expansion.fields)
    squares = squared_distances(g, "queries", "points")
    inside = squares < outer
    if inner > 0:
        inside = inside & (g.Not(squares < inner) | g.Not(g.Abs(squares) > 0.0))
    size = g.Shape("points")[1:2]
    keys = g.Where(inside, g.arange(size), size)
    spare = g.Expand(size, [g.Shape("queries")[:2], most])
    first = g.TopK(g.Concat(keys, spare, axis=2), [most], axis=2, largest=0, sorted=1, outputs=2)[0]
    found = first < size
    lowest = g.Slice(first, [0], [1], [2])
    indices = g.Where(found, first, g.Where(lowest < size, lowest, 0))
    counts = g.ReduceSum(g.Cast(found, to="int32"), axes=[2], keepdims=0)
    return counts, g.Cast(indices, to="int32")


def _case(
    name: str, points: tuple[int, int], queries: int, neighbours: int, radius: float = 1.25, **given: Any
) -> Case:
    fields = {"radius": radius, "inner_radius": given.pop("inner_radius", 0.0), "neighbours": neighbours}
    clouds, others = lattice(*points, 3), lattice(points[0], queries, 3, steps=10)
    return Case(name, fields, lambda rng: {"points": clouds(rng), "queries": others(rng)}, **given)


def _benchmark(name: str, radius: float) -> Case:
    fields = {"radius": radius, "inner_radius": 0.0, "neighbours": 32}
    return Case(name, fields, eight_clouds, large=True)


_BENCHMARKS = (_benchmark("most_full_8x4096", 204.8), _benchmark("few_in_range_8x4096", 20.48))


BALL_NEIGHBOURS = OpDef(
    name="BallNeighbours",
    doc=(
        "Of each query the first points, in the cloud's order, whose distance is less than the radius and not less than the "
        "inner radius, or zero. Spare places repeat the first one; without any they are 0. Nothing is near a point with a "
        "coordinate that is no number. Squares of distances are summed in float32, with or without fused multiply-adds."
    ),
    inputs=(POINTS, QUERIES),
    outputs=(
        Port("counts", "S", 2, "[B, M]: how many were found, at most `neighbours`"),
        Port("indices", "S", 3, "[B, M, neighbours]: their numbers"),
    ),
    fields=(
        Field("radius", Kind.FLOAT, "of the ball; it does not belong to it", minimum=0),
        Field("neighbours", Kind.INT, "places of a query", minimum=1),
        Field(
            "inner_radius",
            Kind.FLOAT,
            "nearer points are left out, but for those at the query",
            default=0.0,
            minimum=0,
        ),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    chain="stock-point-clouds",
    cases=(
        _case("one_of_each", (1, 1), 1, 1),
        _case("more_places_than_points", (2, 3), 7, 5),
        _case("odd", (2, 70), 13, 9),
        _case("full_balls", (2, 400), 6, 3),
        _case("inner_radius", (2, 300), 21, 40, inner_radius=0.75),
        _case("no_radius", (1, 30), 5, 3, radius=0.0),
        Case(
            "strange_points",
            {"radius": 1.25, "inner_radius": 0.0, "neighbours": 8},
            lambda rng: spoilt_pair(rng, 60, 9),
        ),
        _case("no_points", (2, 0), 3, 4),
        _case("no_queries", (2, 9), 0, 4),
        _case("several_tiles", (1, 2100), 40, 100, radius=2.0),
        _case("many_queries", (2, 1500), 4500, 17, large=True, tiles=True),
        *_BENCHMARKS,
    ),
    benchmarks=_BENCHMARKS,
    work=pairs_work,
)
