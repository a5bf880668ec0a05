"""The sorting of points into voxels, as NVIDIA's plugin has it. Cells have few points, so that none is left out."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

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
