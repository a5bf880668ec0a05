"""Makes test inputs of sampling in volumes, and lists sizes at which networks use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case, Fields, Huge, HugeCase
from trtsmith.importers.ops._huge import numbers

Made = dict[str, np.ndarray]
Sizes = tuple[int, int, int]

LINEAR, NEAREST = range(2)
ZEROS, BORDER, REFLECTION = range(3)


def _fields(interpolation: int, padding: int, aligned: int) -> Fields:
    return {"interpolation": interpolation, "padding": padding, "align_corners": aligned}


def _scattered(
    rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int
) -> np.ndarray:
    """Anywhere in the volume and around it, at least a tenth of a voxel away from what two voxels are as near to."""
    size = np.array(volume[::-1])
    at = rng.integers(-2, size + 2, (batch, *points, 3)) + rng.uniform(-0.4, 0.4, (batch, *points, 3))
    grid: np.ndarray = 2 * at / np.maximum(size - 1, 1) - 1 if aligned else (2 * at + 1) / size - 1
    return grid


def _smooth(rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int) -> np.ndarray:
    """A grid over the volume, a little turned: neighbouring points have neighbouring voxels."""
    axes = [np.linspace(-0.95, 0.95, count) for count in points]
    z, y, x = np.meshgrid(*axes, indexing="ij")
    grid = np.stack([x + 0.05 * y, y - 0.05 * x, z], axis=-1)
    return np.broadcast_to(grid, (batch, *points, 3)) + rng.uniform(-0.002, 0.002, (batch, *points, 3))


def _strange(rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int) -> np.ndarray:
    """Some coordinates NaN, infinite, or outside by several volumes; what float32 makes of these is exact."""
    grid = _scattered(rng, batch, volume, points, aligned)
    chosen = rng.random(grid.shape) < 0.2
    grid[chosen] = rng.choice([np.nan, np.inf, -np.inf, 17.25, -40.0], chosen.sum())
    return grid


def _corners(rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int) -> np.ndarray:
    """On the corners of the volume and in its middle, and an eighth beside them."""
    return rng.choice([-1.125, -1.0, -0.875, 0.0, 0.875, 1.0, 1.125], (batch, *points, 3))


def _case(
    name: str,
    x: tuple[int, int, int, int, int],
    points: Sizes,
    fields: tuple[int, int, int] = (LINEAR, ZEROS, 0),
    grid: Callable[..., np.ndarray] = _scattered,
    **marks: bool,
) -> Case:
    def make(rng: np.random.Generator) -> Made:
        return {"x": rng.normal(size=x), "grid": grid(rng, x[0], x[2:], points, fields[2])}

    return Case(name, _fields(*fields), make, **marks)


BENCHMARKS = (
    # Volumes of a network for occupancy or for registration: points anywhere, and points on a grid that is a little turned.
    _case("random_32x16x64x64", (2, 32, 16, 64, 64), (16, 64, 64), large=True),
    _case("smooth_32x16x64x64", (2, 32, 16, 64, 64), (16, 64, 64), grid=_smooth, large=True),
    _case(
        "registration_2x96x96x96", (1, 2, 96, 96, 96), (96, 96, 96), (LINEAR, BORDER, 1), _smooth, large=True
    ),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1, 1), (1, 1, 1), (LINEAR, BORDER, 0)),
    _case("linear_zeros", (2, 3, 4, 5, 6), (3, 4, 5)),
    _case("linear_zeros_aligned", (2, 3, 4, 5, 6), (3, 4, 5), (LINEAR, ZEROS, 1)),
    _case("linear_border", (2, 3, 4, 5, 6), (3, 4, 5), (LINEAR, BORDER, 0)),
    _case("linear_border_aligned", (1, 2, 4, 5, 6), (3, 4, 5), (LINEAR, BORDER, 1)),
    _case("linear_reflection", (2, 3, 4, 5, 6), (3, 4, 5), (LINEAR, REFLECTION, 0)),
    _case("linear_reflection_aligned", (1, 2, 4, 5, 6), (3, 4, 5), (LINEAR, REFLECTION, 1)),
    _case("nearest_zeros", (2, 3, 4, 5, 6), (3, 4, 5), (NEAREST, ZEROS, 0)),
    _case("nearest_border_aligned", (2, 3, 4, 5, 6), (3, 4, 5), (NEAREST, BORDER, 1)),
    _case("nearest_reflection", (1, 3, 4, 5, 6), (3, 4, 5), (NEAREST, REFLECTION, 0)),
    _case("whole_vectors", (2, 16, 4, 6, 5), (5, 6, 7)),
    _case("whole_vectors_nearest", (2, 32, 4, 6, 5), (5, 6, 7), (NEAREST, REFLECTION, 1)),
    _case("odd_channels", (2, 13, 4, 6, 5), (5, 6, 7), (LINEAR, BORDER, 0)),
    _case("more_channels_than_a_slice", (1, 45, 3, 5, 6), (5, 5, 6), (LINEAR, REFLECTION, 0)),
    _case("few_points_in_much", (1, 24, 7, 9, 11), (2, 3, 4)),
    _case("corners", (2, 9, 4, 5, 6), (4, 5, 6), grid=_corners),
    _case("corners_reflected", (2, 9, 4, 5, 6), (4, 5, 6), (LINEAR, REFLECTION, 0), _corners),
    _case("strange_depth_of_one_voxel", (1, 8, 1, 5, 6), (3, 4, 5), (LINEAR, REFLECTION, 1)),
    _case("strange_places", (2, 9, 4, 6, 8), (5, 6, 7), grid=_strange),
    _case("strange_places_at_the_border", (2, 9, 4, 6, 8), (5, 6, 7), (LINEAR, BORDER, 1), _strange),
    _case("strange_places_reflected", (2, 9, 4, 6, 8), (5, 6, 7), (LINEAR, REFLECTION, 0), _strange),
    _case("strange_places_nearest", (2, 9, 4, 6, 8), (5, 6, 7), (NEAREST, ZEROS, 0), _strange),
    _case("smooth", (1, 8, 6, 7, 9), (6, 7, 9), grid=_smooth),
    _case("no_points", (2, 3, 4, 5, 6), (3, 0, 5)),
    _case("no_channels", (2, 0, 4, 5, 6), (3, 4, 5)),
    _case("no_batch", (0, 3, 4, 5, 6), (3, 4, 5)),
    _case("tiles", (2, 40, 8, 16, 16), (8, 18, 17), large=True, tiles=True),
    _case("tiles_apart", (2, 5, 8, 16, 16), (8, 18, 17), (NEAREST, BORDER, 0), large=True, tiles=True),
    *BENCHMARKS,
)


def huge() -> HugeCase:
    """Eight channels and as many points as voxels: with sides of 647, x and the output have 2.17e9 elements each.

    Points lie outside but for a few, which lie on corners of the volume and in its middle: float16 holds these exactly.
    """
    fields = _fields(NEAREST, ZEROS, 1)

    def make(side: int, device: str) -> Huge:
        import torch

        side = side // 2 * 2 + 1  # so that 0 is the middle of a voxel
        half: dict[str, Any] = {"device": device, "dtype": torch.float16}
        x = torch.randn(1, 8, side, side, side, **half)
        grid = torch.full((1, side, side, side, 3), 4.0, **half)
        last = side - 1
        places = [(0, 0, 0), (side // 2, 1, 2), (last, last, last), (last, last, last - 1)]
        targets = [(1.0, 1.0, 1.0), (0.0, 0.0, 1.0), (-1.0, -1.0, -1.0), (0.0, 1.0, 1.0)]
        for place, target in zip(places, targets, strict=True):
            grid[0][place] = torch.tensor(target, **half)

        def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
            results = []
            for (slab, row, column), target in zip(places, targets, strict=True):
                x_at, y_at, z_at = (round((c + 1) / 2 * last) for c in target)
                found = numbers(outputs[0][0, :, slab, row, column])
                results.append((f"point {slab}, {row}, {column}", found, numbers(x[0, :, z_at, y_at, x_at])))
            beside = numbers(outputs[0][0, :, last, last, side - 30 : last - 1])
            results.append(("points outside", beside + 1, np.ones(beside.shape)))
            return results

        return Huge(fields, {"x": x, "grid": grid}, check)

    return HugeCase(make, size=647, small=41)
