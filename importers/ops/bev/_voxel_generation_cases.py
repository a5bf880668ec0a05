"""Makes test inputs for sorting points into voxels, and lists the sizes of networks that do so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trtsmith.importers.opdef import Case, Fields
from trtsmith.importers.ops._shared import Made, then

Ends = tuple[float, float, float, float, float, float]
Size = tuple[float, float, float]

KITTI: Ends = (0.0, -39.68, -3.0, 69.12, 39.68, 1.0)
SMALL: Ends = (-2.0, -1.0, -1.5, 4.0, 3.0, 2.5)


def _inputs(rng: np.random.Generator, frames: int, points: int, width: int, ends: Ends) -> Made:
    """Points around the range, one in ten of them outside; of the last frame all count."""
    low, high = np.array(ends[:3]), np.array(ends[3:])
    made = rng.normal(size=(frames, points, width))
    made[..., :3] = low + (high - low) * (rng.random((frames, points, 3)) * 1.04 - 0.02)
    counts = rng.integers(points // 2, points + 1, frames)
    counts[-1:] = points
    return {"points": made, "num_points": counts}


def _dense(rng: np.random.Generator, made: Made) -> None:
    """Few cells, so that voxels overflow."""
    corner = made["points"][..., :1, :3].copy() if made["points"].shape[1] else 0
    made["points"][..., :3] = corner * 0.2 + rng.random(made["points"][..., :3].shape) * 1.2


def _strange(rng: np.random.Generator, made: Made) -> None:
    """Coordinates that are no numbers or infinite, and numbers of points that are none."""
    points = made["points"]
    chosen = rng.random(points.shape[:2]) < 0.3
    odd = np.array([np.nan, np.inf, -np.inf, 1e9, -1e9])
    points[chosen, rng.integers(0, 3, chosen.sum())] = rng.choice(odd, chosen.sum())
    made["num_points"][:4] = [-1, 2**31 - 1, 3, -(2**31)][: len(made["num_points"])]


def _on_borders(rng: np.random.Generator, made: Made) -> None:
    """Positions at which cells begin and end, the range's own ends among them."""
    shape = made["points"][..., :3].shape
    made["points"][..., :3] = np.array(SMALL[:3]) + 0.5 * rng.integers(0, 13, shape)


def _outside(_rng: np.random.Generator, made: Made) -> None:
    made["points"][1:, :, 2] = 100.0


def _case(
    name: str,
    points: tuple[int, int, int],
    most: tuple[int, int],
    features: int,
    change: Callable[[np.random.Generator, Made], None] | None = None,
    ends: Ends = SMALL,
    size: Size = (0.5, 0.5, 4.0),
    pillars: int = 1,
    **marks: bool,
) -> Case:
    """most: voxels, and points of a voxel."""
    fields: Fields = {
        "max_points": most[1],
        "max_voxels": most[0],
        "features": features,
        # As a plugin has them: ONNX keeps floats in 32 bits.
        "point_cloud_range": tuple(float(np.float32(end)) for end in ends),
        "voxel_size": tuple(float(np.float32(length)) for length in size),
        "pillars": pillars,
    }
    return Case(name, fields, then(lambda rng: _inputs(rng, *points, ends), change), **marks)


def _scan(points: int, far: float) -> Callable[[np.random.Generator, Made], None]:
    """Points as a scanner sees them: as many at 5 m as at 50 m, rows of them side by side."""

    def make(rng: np.random.Generator, made: Made) -> None:
        angle = np.linspace(-np.pi, np.pi, points // 64, endpoint=False)
        reach = np.sort(rng.random(64)) ** 2 * far + 2
        reach = (
            reach[:, None] * (1 + 0.02 * rng.normal(size=len(angle)).cumsum() / len(angle) ** 0.5)
        ).ravel()
        angle = np.tile(angle, 64)
        total = len(reach)
        for frame in made["points"]:
            frame[:total, 0], frame[:total, 1] = reach * np.cos(angle), reach * np.sin(angle)
            frame[:total, 2] = -1.7 + 0.1 * rng.normal(size=total) + 2 * rng.random(total) * (reach > far / 4)
        made["num_points"][:] = total

    return make


BENCHMARKS = (
    # PointPillars on KITTI, NVIDIA's; the same with 40,000 pillars; voxels of CenterPoint and BEVFusion.
    _case(
        "kitti_12000",
        (1, 120_000, 4),
        (12_000, 32),
        10,
        _scan(120_000, 60),
        KITTI,
        (0.16, 0.16, 4.0),
        large=True,
    ),
    _case("pillars_40000", (1, 100_000, 4), (40_000, 32), 10, None, KITTI, (0.16, 0.16, 4.0), large=True),
    _case(
        "centerpoint_160000",
        (1, 300_000, 5),
        (160_000, 10),
        5,
        _scan(300_000, 50),
        (-54.0, -54.0, -5.0, 54.0, 54.0, 3.0),
        (0.075, 0.075, 0.2),
        0,
        large=True,
    ),
)

CASES = (
    _case("one_of_each", (1, 1, 3), (1, 1), 3, lambda _, made: made["points"].fill(0.25)),
    _case("two_frames", (2, 60, 4), (90, 4), 10),
    _case("voxels", (2, 90, 4), (100, 3), 4, size=(1.0, 1.0, 0.5), pillars=0),
    _case("five_numbers", (2, 60, 5), (90, 4), 11),
    _case("some_offsets", (1, 60, 4), (90, 3), 6),
    _case("odd_numbers", (3, 50, 3), (7, 5), 9),
    _case("too_many_voxels", (3, 120, 4), (20, 4), 10),
    _case("too_many_points", (2, 400, 4), (30, 5), 10, _dense),
    _case("full_rows", (1, 700, 4), (30, 32), 10, _dense),
    _case("more_points_than_a_warp", (1, 900, 4), (9, 70), 10, _dense),
    _case("strange_positions_and_numbers", (4, 60, 4), (40, 4), 10, _strange),
    _case("on_borders", (2, 80, 4), (70, 4), 10, _on_borders, size=(0.5, 0.5, 0.5), pillars=0),
    _case("size_that_does_not_divide", (2, 80, 4), (70, 4), 10, size=(0.7, 0.9, 1.1), pillars=0),
    _case("a_frame_without_voxels", (3, 30, 4), (20, 4), 10, _outside),
    _case("no_points", (2, 0, 4), (3, 2), 10),
    _case("no_frames", (0, 5, 4), (3, 2), 10),
    _case("tiles", (2, 5_000, 4), (900, 20), 10, _dense, large=True, tiles=True),
    *BENCHMARKS,
)
