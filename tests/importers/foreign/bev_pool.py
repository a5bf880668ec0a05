"""The sum of weighted features over intervals of points, as other tools write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers

POOL = "BevPool"
HEIGHT, WIDTH = 3, 4


def inputs(planes: int = 1) -> dict[str, np.ndarray | None]:
    """Five points to a cell, the cells out of order, and two points behind the last interval."""
    rng = np.random.default_rng(5)
    cells = np.repeat(rng.permutation(planes * HEIGHT * WIDTH)[:9], 5)
    points = len(cells) + 2
    arrays = {
        "depth": rng.random((2, 4, 3, 5)),
        "feat": rng.normal(size=(2, 3, 5, 8)),
        "ranks_depth": rng.integers(0, 120, points),
        "ranks_feat": rng.integers(0, 30, points),
        "ranks_bev": np.append(cells, [0, 1]),
        "interval_starts": np.arange(0, 45, 5),
        "interval_lengths": np.full(9, 5),
    }
    return {n: a.astype(np.float32 if a.dtype.kind == "f" else np.int32) for n, a in arrays.items()}


def summed(arrays: Arrays, planes: int) -> np.ndarray:
    """[planes, height, width, C], point by point."""
    depth = arrays["depth"].astype(np.float64).ravel()
    rows = arrays["feat"].astype(np.float64).reshape(-1, arrays["feat"].shape[-1])
    grid = np.zeros((planes * HEIGHT * WIDTH, rows.shape[1]))
    for point in range(45):
        weight = depth[arrays["ranks_depth"][point]]
        grid[arrays["ranks_bev"][point]] += weight * rows[arrays["ranks_feat"][point]]
    return grid.reshape(planes, HEIGHT, WIDTH, -1)


def one_plane(arrays: Arrays) -> np.ndarray:
    return summed(arrays, 1)


def two_planes(arrays: Arrays) -> np.ndarray:
    """[1, C, Z, H, W], as TRTBEVPoolv2.forward of BEVDet leaves it."""
    return summed(arrays, 2)[None].transpose(0, 4, 1, 2, 3)


def cells() -> dict[str, np.ndarray | None]:
    """Rows of 16 points in 5 cells of two images with two layers, the intervals out of order."""
    rng = np.random.default_rng(9)
    cell = np.stack(np.unravel_index(rng.permutation(48)[:5], (2, 2, HEIGHT, WIDTH)), 1)[:, [2, 3, 1, 0]]
    lengths = np.array([3, 1, 5, 2, 5])
    order = np.array([2, 0, 4, 1, 3])
    return {
        "points": rng.normal(size=(16, 6)).astype(np.float32),
        "cells": np.repeat(cell, lengths, 0).astype(np.int32),
        "interval_lengths": lengths[order].astype(np.int32),
        "interval_starts": (np.cumsum(lengths) - lengths)[order].astype(np.int32),
    }


def by_cell(arrays: Arrays) -> np.ndarray:
    grid = np.zeros((2, 2, HEIGHT, WIDTH, 6))
    for point, (row, column, layer, image) in zip(arrays["points"], arrays["cells"], strict=True):
        grid[image, layer, row, column] += point
    return grid


CELLS = {"batch_size": 2, "dimension": 2, "height": HEIGHT, "width": WIDTH}
OUT = {"out_height": HEIGHT, "out_width": WIDTH}
OUTPUT = {"output_height": HEIGHT, "output_width": WIDTH, "output_z": 1}
FIELDS = {"output_planes": 1, "output_height": HEIGHT, "output_width": WIDTH}

EXAMPLES = (
    Example(POOL, "QuickCumsumCuda", "autoware", CELLS, cells, by_cell),
    Example(POOL, "bev_pool_v2", "mmdeploy", OUT, inputs, one_plane),
    Example(POOL, "bev_pool_v2", "mmdeploy", OUTPUT, inputs, one_plane, note="output"),
    Example(
        POOL, "bev_pool_v2", "mmdeploy", OUTPUT | {"output_z": 2}, lambda: inputs(2), two_planes, note="z"
    ),
    Example(POOL, "bev_pool_v3", "mmdeploy", OUTPUT, inputs, one_plane),
    Example(POOL, "BEVPoolV2TRT", "", OUT, inputs, one_plane),
    Example(POOL, "BEVPoolV2TRT2", "custom", OUT, inputs, one_plane),
    Example(POOL, POOL, "trtsmith", FIELDS, inputs, one_plane),
)

SHAPES = {
    "depth": (2, 4, 3, 5),
    "feat": (2, 3, 5, 8),
    "ranks_depth": (47,),
    "ranks_feat": (47,),
    "ranks_bev": (47,),
    "interval_starts": (9,),
    "interval_lengths": (9,),
}

INCONSISTENT = (
    Inconsistent(POOL, SHAPES, {"feat": (1, 3, 5, 8)}, "feat[0] = 1, but depth[0] = 2", FIELDS),
    Inconsistent(POOL, SHAPES, {"feat": (2, 3, 6, 8)}, "feat[2] = 6, but depth[3] = 5", FIELDS),
    Inconsistent(POOL, SHAPES, {"ranks_feat": (46,)}, "ranks_feat[0] = 46, but ranks_depth[0] = 47", FIELDS),
    Inconsistent(POOL, SHAPES, {"ranks_bev": (48,)}, "ranks_bev[0] = 48, but ranks_depth[0] = 47", FIELDS),
    Inconsistent(
        POOL,
        SHAPES,
        {"interval_lengths": (8,)},
        "interval_lengths[0] = 8, but interval_starts[0] = 9",
        FIELDS,
    ),
    Inconsistent(
        POOL, SHAPES, {}, "4294967296 cells", FIELDS, {"output_height": 2**20, "output_width": 2**12}
    ),
)


def huge(side: int, device: str) -> Huge:
    """A row of features for each cell, 80 channels: with 26,900,000 of them, x and the output have 2.15e9 elements each."""
    import torch

    near = np.arange(40)
    rows = np.concatenate([near, side - 1 - near])
    fields = {"output_planes": 1, "output_height": 1, "output_width": side}
    feat = torch.randn(1, 1, side, 80, device=device, dtype=torch.float16)
    depth = torch.rand(1, 1, 1, side, device=device).half()

    def ranks(values: np.ndarray) -> Any:
        return torch.tensor(values, device=device, dtype=torch.int32)

    inputs = {
        "depth": depth,
        "feat": feat,
        "ranks_depth": ranks(rows),
        "ranks_feat": ranks(rows[::-1].copy()),
        "ranks_bev": ranks(rows),
        "interval_starts": ranks(np.arange(80)),
        "interval_lengths": ranks(np.ones(80)),
    }

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """The first forty cells have the last rows of features, the last forty the first; beside them cells are empty."""
        found, results, empty = outputs[0][0, 0], [], np.zeros((8, 80))
        first, last = slice(0, 40), slice(side - 40, side)
        for place, cut, rows in (("first cells", first, last), ("last cells", last, first)):
            right = numbers(depth[0, 0, 0, cut])[:, None] * numbers(feat[0, 0, rows])
            parts = [right, empty] if cut is first else [empty, right]
            wide = slice(0, 48) if cut is first else slice(side - 48, side)
            results.append((place, numbers(found[wide]), np.concatenate(parts)))
        return results

    return Huge(fields, inputs, check)


HUGE = HugeCase(huge, size=26_900_000, small=150)
