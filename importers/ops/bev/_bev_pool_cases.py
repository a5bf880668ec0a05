"""Makes test inputs for the sum of weighted features over intervals, and lists the sizes of networks that use it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trtsmith.importers.opdef import Arrays, Case, Fields
from trtsmith.importers.ops._shared import Made, put_some, then

Grid = tuple[int, int, int]


def _intervals(ranks_bev: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and lengths of runs of equal cells."""
    starts = np.flatnonzero(np.concatenate([[True], ranks_bev[1:] != ranks_bev[:-1]])[: len(ranks_bev)])
    return starts, np.diff(np.append(starts, len(ranks_bev)))


def _inputs(
    rng: np.random.Generator, cameras: tuple[int, int, int, int], channels: int, points: int, grid: Grid
) -> Made:
    """Points with any depth, row and cell, sorted by cell. Depths are shares, as a softmax gives them."""
    count, _, height, width = cameras
    ranks_bev = np.sort(rng.integers(0, math.prod(grid), points))
    starts, lengths = _intervals(ranks_bev)
    return {
        "depth": rng.random(cameras),
        "feat": rng.normal(size=(count, height, width, channels)),
        "ranks_depth": rng.integers(0, math.prod(cameras), points),
        "ranks_feat": rng.integers(0, count * height * width, points),
        "ranks_bev": ranks_bev,
        "interval_starts": starts,
        "interval_lengths": lengths,
    }


def _unordered(rng: np.random.Generator, made: Made) -> None:
    """Intervals in any order, some of them left out, so that their points do not count."""
    order = rng.permutation(len(made["interval_starts"]))[: -len(made["interval_starts"]) // 3]
    for name in ("interval_starts", "interval_lengths"):
        made[name] = made[name][order]


def _strange(rng: np.random.Generator, made: Made) -> None:
    """Ranks that do not exist, intervals that begin or end outside, without points, with others' points, of one cell."""
    for name in ("ranks_depth", "ranks_feat", "ranks_bev"):
        put_some(rng, 0.2, made[name], [-1, -(2**31), 2**31 - 1, 2**20])
    points, starts = len(made["ranks_bev"]), made["interval_starts"]
    outside = np.array([-1, points, 2**31 - 1, -(2**31), points - 3, 0, 1, 4, 4])
    wrong = np.array([5, 5, 2**31 - 1, 2**31 - 1, 2**31 - 1, 0, -7, 3, 9])
    made["interval_starts"] = np.concatenate([starts, outside])
    made["interval_lengths"] = np.concatenate([made["interval_lengths"], wrong])


def _one_cell(rng: np.random.Generator, made: Made) -> None:
    """All points in one interval, as many as several teams of a block share."""
    made["ranks_bev"][:] = made["ranks_bev"][len(made["ranks_bev"]) // 2]
    made["interval_starts"], made["interval_lengths"] = _intervals(made["ranks_bev"])


def _case(
    name: str,
    cameras: tuple[int, int, int, int],
    channels: int,
    points: int,
    grid: Grid,
    change: Callable[[np.random.Generator, Made], None] | None = None,
    **marks: bool,
) -> Case:
    fields = dict(zip(("output_planes", "output_height", "output_width"), grid, strict=True))
    inputs = then(lambda rng: _inputs(rng, cameras, channels, points, grid), change)
    return Case(name, fields, inputs, **marks)


def _lifted(rows: int, columns: int, cells: int, cell: float) -> Made:
    """Ranks of the pixels of six cameras, each at 118 depths, on a grid around the car: a rig like that of nuScenes.

    Images of 16 pixels a feature; half a metre from one depth to the next; points above 3 m and below -5 m do not count.
    """
    yaws, focal = np.deg2rad([0, 55, 110, 180, 250, 305]), np.array([557, 557, 557, 355, 557, 557])
    depths = np.arange(1.0, 60.0, 0.5)
    shape = (6, len(depths), rows, columns)
    scale = columns / 44
    distance = depths[None, :, None, None]
    x = (np.arange(columns) + 0.5 - columns / 2) * 16 / scale
    y = (np.arange(rows) + 0.5 - rows * 0.45) * 16 / scale
    left = -distance * x / focal[:, None, None, None]
    up = 1.5 - distance * y[:, None] / focal[:, None, None, None]
    sine, cosine = np.sin(yaws)[:, None, None, None], np.cos(yaws)[:, None, None, None]
    ahead = np.broadcast_to(distance + 1.0, shape)
    across, along = ahead * sine + left * cosine, ahead * cosine - left * sine
    column, row = (np.floor(place / cell + cells / 2).astype(np.int64) for place in (along, across))
    inside = (column >= 0) & (column < cells) & (row >= 0) & (row < cells) & (up > -5) & (up < 3)
    feature = np.broadcast_to(np.arange(6 * rows * columns).reshape(6, 1, rows, columns), shape)
    found = np.flatnonzero(inside)
    ranks_bev = (row * cells + column).reshape(-1)[found]
    order = np.argsort(ranks_bev, kind="stable")
    starts, lengths = _intervals(ranks_bev[order])
    return {
        "ranks_depth": found[order],
        "ranks_feat": feature.reshape(-1)[found][order],
        "ranks_bev": ranks_bev[order],
        "interval_starts": starts,
        "interval_lengths": lengths,
    }


def _rig(name: str, rows: int, columns: int, channels: int, cells: int, cell: float) -> Case:
    def make(rng: np.random.Generator) -> Made:
        scores = np.exp(rng.normal(size=(6, 118, rows, columns)))
        feat = rng.normal(size=(6, rows, columns, channels))
        return {"depth": scores / scores.sum(1, keepdims=True), "feat": feat} | _lifted(
            rows, columns, cells, cell
        )

    fields = {"output_planes": 1, "output_height": cells, "output_width": cells}
    return Case(name, fields, make, large=True)


BENCHMARKS = (
    # BEVDet's small network, its larger one, and BEVFusion's.
    _rig("bevdet_256x704", 16, 44, 80, 128, 0.8),
    _rig("bevdet_512x1408", 32, 88, 80, 256, 0.4),
    _rig("bevfusion_256x704", 32, 88, 80, 360, 0.3),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 1, 1, (1, 1, 1)),
    _case("two_cameras", (2, 5, 3, 4), 8, 90, (1, 5, 7)),
    _case("odd_channels", (2, 5, 3, 4), 13, 90, (1, 5, 7)),
    _case("several_planes", (2, 5, 3, 4), 8, 200, (3, 4, 5)),
    _case("full_vectors", (3, 6, 4, 5), 80, 600, (1, 9, 8)),
    _case("more_channels_than_a_team", (1, 4, 3, 5), 264, 60, (1, 4, 5)),
    _case("more_odd_channels_than_a_team", (1, 4, 3, 5), 71, 60, (1, 4, 5)),
    _case("few_points_in_many_cells", (1, 4, 3, 5), 16, 20, (1, 37, 11)),
    _case("long_intervals", (2, 9, 6, 7), 24, 3000, (1, 2, 3)),
    _case("one_long_interval", (2, 9, 6, 7), 40, 700, (1, 4, 9), _one_cell),
    _case("unordered", (2, 5, 3, 4), 16, 150, (1, 7, 6), _unordered),
    _case("strange_ranks_and_intervals", (2, 5, 3, 4), 16, 150, (1, 7, 6), _strange),
    _case("strange_ranks_odd_channels", (2, 5, 3, 4), 5, 150, (2, 7, 6), _strange),
    _case("no_points", (1, 2, 3, 4), 8, 0, (1, 3, 5)),
    _case("no_channels", (1, 2, 3, 4), 0, 9, (1, 3, 5)),
    _case("no_cameras", (0, 2, 3, 4), 8, 0, (1, 3, 5)),
    _case("tiles", (2, 9, 6, 7), 80, 4000, (1, 30, 30), large=True, tiles=True),
    *BENCHMARKS,
)


def pool(fields: Fields, inputs: Arrays) -> np.ndarray:
    """Computes [planes, height, width, C] in float64, one interval after the other."""
    *pixels, channels = inputs["feat"].shape
    depth, rows = inputs["depth"].reshape(-1), inputs["feat"].reshape(math.prod(pixels), channels)
    grid = (fields["output_planes"], fields["output_height"], fields["output_width"])
    cells = np.zeros((math.prod(grid), channels))
    ranks = [inputs[name].astype(np.int64) for name in ("ranks_depth", "ranks_feat", "ranks_bev")]
    points = len(ranks[2])
    for start, length in zip(inputs["interval_starts"], inputs["interval_lengths"], strict=True):
        start, length = int(start), int(length)
        if not 0 <= start < points or length <= 0 or not 0 <= ranks[2][start] < len(cells):
            continue
        which, row = (rank[start : start + length] for rank in ranks[:2])
        exists = (which >= 0) & (which < len(depth)) & (row >= 0) & (row < len(rows))
        weights = depth[which[exists]].astype(np.float64)
        cells[ranks[2][start]] = weights @ rows[row[exists]].astype(np.float64)
    return cells.reshape(*grid, channels)
