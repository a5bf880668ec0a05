"""Defines ports, checks, cases and distances in ONNX for the operators on point clouds.

Squares of distances are summed in float32, in the order of the axes, with fused multiply-adds or without, as in the public
kernels: where two are nearly equal, either may come first. Cases have points of a lattice, whose squares are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Fields, Port, Shapes, Work
from trtsmith.importers.ops._shared import size_faults, size_of

POINTS = Port("points", "T", 3, "[B, N, 3] clouds of points", positions=True)
QUERIES = Port("queries", "T", 3, "[B, M, 3]", positions=True)

MOST_POINTS = 2**30 - 1
"""Of a cloud: the kernels number points and what comes behind the last of them in 32 bits."""


def cloud_faults(shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Lists the sizes that do not fit together."""
    count = size_of(shapes, "points", 1)
    many = (
        [f"points[1] = {count}, more than {MOST_POINTS}"] if count is not None and count > MOST_POINTS else []
    )
    return many + size_faults(shapes, *(("queries", axis, "points", axis) for axis in (0, 2)))


def three_axes(shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Lists a fault for points that do not have three coordinates."""
    return size_faults(shapes, ("points", 2, 3))


def lattice(*shape: int, steps: int = 8) -> Any:
    """Makes points of up to `steps` quarters from the origin along each axis, many of them equally far from each other."""
    return lambda rng: rng.integers(-steps, steps + 1, shape) / 4


def scattered(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Makes integers up to 1,023, whose squared distances float32 holds, even after rounding to 8 bits."""
    return rng.integers(0, 1024, shape).astype(np.float64)


def spoilt(made: np.ndarray) -> np.ndarray:
    """Puts NaN and infinity into some points' coordinates."""
    made[0, 3, 1], made[-1, 5, 2], made[0, -1, 0] = np.nan, np.inf, -np.inf
    return made


def spoilt_pair(rng: np.random.Generator, points: int, queries: int) -> dict[str, np.ndarray]:
    """Makes two clouds and their queries, with such points among both."""
    return {"points": spoilt(lattice(2, points, 3)(rng)), "queries": spoilt(lattice(2, queries, 3)(rng))}


def eight_clouds(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Makes 8 clouds of 16,384 points, each in a cube of 1,024, and 4,096 queries: the inputs of the benchmarks."""
    return {"points": scattered(rng, 8, 16384, 3), "queries": scattered(rng, 8, 4096, 3)}


def pairs_work(_fields: Fields, shapes: Shapes) -> Work:
    """Counts one distance and one comparison for each pair."""
    batch, points, width = shapes["points"]
    return Work(flops=3 * width * batch * points * shapes["queries"][1])


def by_axis(points: np.ndarray) -> np.ndarray:
    """Turns [B, N, D] into [B, D, N] in float64: numpy sums a long last axis several times faster."""
    return np.ascontiguousarray(points.transpose(0, 2, 1), np.float64)


def squares_from(place: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Computes [N] squared distances of a place [D] from points [D, N]."""
    squares: np.ndarray = ((points - place[:, None]) ** 2).sum(axis=0)
    return squares


def squared_distances(g: Builder, queries: Value | str, points: Value | str) -> Value:
    """Computes [B, M, N] from queries [B, M, D] and points [B, N, D]; a NaN is not less than any distance."""
    apart = g.Unsqueeze(queries, axes=[2]) - g.Unsqueeze(points, axes=[1])
    return g.ReduceSum(apart * apart, axes=[3], keepdims=0)
