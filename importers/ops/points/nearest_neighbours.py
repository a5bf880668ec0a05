"""Finds the nearest points of others: k nearest neighbours, and PointNet++'s three nearest."""

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
    by_axis,
    cloud_faults,
    eight_clouds,
    lattice,
    pairs_work,
    spoilt_pair,
    squared_distances,
    squares_from,
)


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, queries, _ = shapes["queries"]
    return dict.fromkeys(("distances", "indices"), (batch, queries, fields["neighbours"]))


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    return cloud_faults(shapes)


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One query after the other, by a stable sort of those no farther than the last that has a place.

    Roots are rounded to float32, and then to the type of the points.
    """
    points, queries = by_axis(inputs["points"]), inputs["queries"].astype(np.float64)
    most = fields["neighbours"]
    shape = (*queries.shape[:2], most)
    distances, indices = np.full(shape, np.inf, np.float32), np.zeros(shape, np.int32)
    with np.errstate(invalid="ignore"):
        for b, m in np.ndindex(*shape[:2]):
            squares = squares_from(queries[b, m], points[b])
            squares[~np.isfinite(squares)] = np.inf
            last = np.partition(squares, most - 1)[most - 1] if most < len(squares) else np.inf
            order = np.flatnonzero((squares <= last) & (squares < np.inf))
            order = order[squares[order].argsort(kind="stable")][:most]
            distances[b, m, : len(order)] = np.sqrt(squares[order])
            indices[b, m, : len(order)] = order
    return {"distances": distances.astype(inputs["points"].dtype), "indices": indices}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    import torch

    points, queries = inputs["points"].double(), inputs["queries"].double()
    squares = (queries[:, :, None] - points[:, None]).square().sum(3)
    squares = squares.masked_fill(~squares.isfinite(), torch.inf)
    squares = torch.nn.functional.pad(squares, (0, fields["neighbours"]), value=torch.inf)
    least, indices = squares.sort(dim=2, stable=True)
    least, indices = (part[:, :, : fields["neighbours"]].contiguous() for part in (least, indices))
    return least.sqrt().float().to(inputs["points"].dtype), indices.masked_fill(least.isinf(), 0).int()


def _expand(expansion: Expansion) -> tuple[Value, Value]:
    """TopK of the distances of all pairs, of which equal ones keep their order."""
    g = Builder(expansion.opset)
    most, far = expansion.fields["neighbours"], np.float32(np.inf)
    squares = squared_distances(g, "queries", "points")
    known = g.Where(squares < far, squares, far)
    spare = g.Expand(far, [g.Shape("queries")[:2], most])
    least, places = g.TopK(g.Concat(known, spare, axis=2), [most], axis=2, largest=0, sorted=1, outputs=2)
    return g.Cast(g.Sqrt(least), to=expansion.dtype), g.Cast(g.Where(least < far, places, 0), to="int32")


def _case(
    name: str, points: tuple[int, int], queries: int, neighbours: int, width: int = 3, **given: Any
) -> Case:
    clouds, others = lattice(*points, width), lattice(points[0], queries, width)
    make = lambda rng: {"points": clouds(rng), "queries": others(rng)}  # noqa: E731
    return Case(name, {"neighbours": neighbours}, make, **given)


_BENCHMARKS = (
    Case("three_of_16384", {"neighbours": 3}, eight_clouds, large=True),
    Case("sixteen_of_16384", {"neighbours": 16}, eight_clouds, large=True),
)


NEAREST_NEIGHBOURS = OpDef(
    name="NearestNeighbours",
    doc=(
        "Of each query the nearest points, in order, of equally near ones the lowest number first, and their distances. A "
        "point whose squared distance is not finite in float32 is nobody's neighbour. Spare places have the number 0 and an "
        "infinite distance. Squares of distances are summed in float32, with or without fused multiply-adds."
    ),
    inputs=(
        Port("points", "T", 3, "[B, N, D] clouds of points", positions=True),
        Port("queries", "T", 3, "[B, M, D]", positions=True),
    ),
    outputs=(
        Port("distances", "T", 3, "[B, M, neighbours]"),
        Port("indices", "S", 3, "[B, M, neighbours]: the numbers of the points"),
    ),
    fields=(Field("neighbours", Kind.INT, "places of a query", minimum=1),),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    chain="stock-point-clouds",
    cases=(
        _case("one_of_each", (1, 1), 1, 1),
        _case("three", (2, 50), 13, 3),
        _case("more_places_than_points", (2, 3), 7, 5),
        _case("equally_near", (1, 300), 9, 32),
        _case("several_passes", (2, 150), 5, 75),
        _case("two_coordinates", (2, 40), 6, 4, width=2),
        _case("features", (1, 70), 9, 5, width=20),
        Case("strange_points", {"neighbours": 40}, lambda rng: spoilt_pair(rng, 40, 9)),
        _case("no_points", (2, 0), 3, 4),
        _case("no_queries", (2, 9), 0, 4),
        _case("several_tiles", (1, 2100), 20, 16),
        _case("many_queries", (2, 1500), 4500, 17, large=True, tiles=True),
        *_BENCHMARKS,
    ),
    benchmarks=_BENCHMARKS,
    work=pairs_work,
)
