"""The sorting of points into voxels, as in NVIDIA's plugin. Cells have few points, so that none is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers

VOXELS = "VoxelGeneration"
LOW, SIZE = np.array([-1.0, 0.0, -2.0]), np.array([0.5, 0.25, 3.0])
MOST, ROOM = 40, 6
RANGE = [-1.0, 0.0, -2.0, 2.0, 2.0, 1.0]


def inputs() -> dict[str, np.ndarray | None]:
    """Two frames, the second of which has fewer points; one point of the first is outside."""
    rng = np.random.default_rng(4)
    points = np.concatenate(
        [rng.uniform(-0.9, 0.9, (2, 25, 3)) + np.array([0.5, 1.0, -0.5]), rng.random((2, 25, 1))], -1
    )
    points[0, 3, 0] = 2.5
    return {"points": points.astype(np.float32), "num_points": np.array([25, 19], np.int32)}


def sorted_in(arrays: Arrays, features: int, divided: bool) -> tuple[np.ndarray, ...]:
    """Voxels, coordinates, points of each voxel and voxels of each frame, by comparing every point with those before it."""
    voxels, coords = np.zeros((2, MOST, ROOM, 10)), np.zeros((2, MOST, 4))
    counts, found = np.zeros((2, MOST)), np.zeros(2)
    for frame, number in enumerate(arrays["num_points"]):
        points = arrays["points"][frame, :number].astype(np.float64)
        points = points[points[:, 0] < 2]
        cells = np.floor((points[:, :3] - LOW) / (SIZE if divided else SIZE * [1, 1, 1e6]))
        same = (cells[:, None] == cells).all(-1)
        firsts = [i for i in range(len(points)) if same[i].argmax() == i]
        for voxel, first in enumerate(firsts):
            own = points[same[first]]
            middle = LOW + SIZE / 2 + cells[first] * SIZE
            voxels[frame, voxel, : len(own)] = np.hstack(
                [own, own[:, :3] - own[:, :3].mean(0), own[:, :3] - middle]
            )
            coords[frame, voxel, 1:] = cells[first, ::-1]
            counts[frame, voxel] = len(own)
        found[frame] = len(firsts)
    return voxels[..., :features], coords, counts, found


def nvidia(arrays: Arrays) -> tuple[np.ndarray, ...]:
    voxels, coords, _, found = sorted_in(arrays, 10, divided=False)
    return voxels, coords, found


def own(arrays: Arrays) -> tuple[np.ndarray, ...]:
    return sorted_in(arrays, 4, divided=True)


ATTRIBUTES = {
    "max_num_points_per_voxel": ROOM,
    "max_voxels": MOST,
    "point_cloud_range": RANGE,
    "voxel_feature_num": 10,
    "voxel_size": SIZE.tolist(),
}
FIELDS = {
    "max_points": ROOM,
    "max_voxels": MOST,
    "features": 4,
    "point_cloud_range": tuple(RANGE),
    "voxel_size": tuple(SIZE.tolist()),
    "pillars": 0,
}

EXAMPLES = (
    Example(VOXELS, "VoxelGeneratorPlugin", "TRT", ATTRIBUTES, inputs, nvidia, types=("T", "S", "S")),
    Example(VOXELS, VOXELS, "trtsmith", FIELDS, inputs, own),
)

SHAPES = {"points": (2, 25, 4), "num_points": (2,)}

INCONSISTENT = (
    Inconsistent(VOXELS, SHAPES, {"num_points": (1,)}, "num_points[0] = 1, but points[0] = 2", FIELDS),
    Inconsistent(VOXELS, SHAPES, {"points": (2, 25, 2)}, "points[2] = 2, but a point has x, y and z", FIELDS),
    Inconsistent(
        VOXELS, SHAPES, {}, "features = 11, but a point of 4 numbers has 10", FIELDS, {"features": 11}
    ),
    Inconsistent(
        VOXELS, SHAPES, {}, "voxel_size[1] = 0, not above 0", FIELDS, {"voxel_size": (0.5, 0.0, 1.0)}
    ),
    Inconsistent(
        VOXELS,
        SHAPES,
        {},
        "point_cloud_range goes from 1 to -1 along x",
        FIELDS,
        {"point_cloud_range": (1.0, 0.0, 0.0, -1.0, 1.0, 1.0)},
    ),
    Inconsistent(VOXELS, SHAPES, {}, "cells, not 1 to 2^31 - 1", FIELDS, {"voxel_size": (1e-4, 1e-4, 1e-4)}),
)


LOWEST, HIGHEST = np.array([-2.0, -1.0, -1.5]), np.array([4.0, 3.0, 2.5])


def counted(points: Any) -> int:
    position = numbers(points)[:, :3]
    return int(((position >= LOWEST) & (position < HIGHEST)).all(axis=1).sum())


def huge(side: int, device: str) -> Huge:
    """Room for many voxels of 320 numbers each, of which a few are used: with 6,800,000, the output has 2.18e9 elements."""
    import torch

    rng = np.random.default_rng(3)
    made = rng.normal(size=(2, 30, 4))
    made[..., :3] = LOWEST + (HIGHEST - LOWEST) * (rng.random((2, 30, 3)) * 1.04 - 0.02)
    points = torch.tensor(made, device=device).half()
    fields = {
        "max_points": 32,
        "max_voxels": side // 2,
        "features": 10,
        "point_cloud_range": (*LOWEST, *HIGHEST),
        "voxel_size": (0.5, 0.5, 4.0),
        "pillars": 1,
    }
    counts = torch.tensor([30, 30], device=device, dtype=torch.int32)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Both frames' first points are those of their first voxels that count; behind the last voxel there is nothing."""
        results = []
        for frame in range(2):
            found = int(outputs[3][frame])
            total = int(outputs[2][frame].sum())
            results.append(
                (f"points of frame {frame}", np.array([total]), np.array([counted(points[frame])]))
            )
            empty = numbers(outputs[0][frame, max(found, side // 2 - 8) :])
            results.append((f"end of frame {frame}", empty + 1, np.ones(empty.shape)))
            own = numbers(outputs[0][frame, :found, 0, :4])
            known = {tuple(row) for row in numbers(points[frame]).tolist()}
            results.append(
                (
                    f"first points of frame {frame}",
                    np.array([tuple(row) in known for row in own.tolist()]),
                    np.ones(found),
                )
            )
        return results

    return Huge(fields, {"points": points, "num_points": counts}, check)


HUGE = HugeCase(huge, size=6_800_000, small=150)
