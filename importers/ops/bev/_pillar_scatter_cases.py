"""Makes test inputs of the layout of pillars on their grid, and lists sizes at which networks use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case, Fields, Huge, HugeCase
from trtsmith.importers.ops._huge import numbers

Made = dict[str, np.ndarray]


def _inputs(rng: np.random.Generator, features: tuple[int, int, int], grid: tuple[int, int]) -> Made:
    """Pillars at different cells of a frame, as far as there are any, and rows behind the last that hold anything."""
    frames, pillars, _ = features
    cells = grid[0] * grid[1]
    cell = np.zeros((frames, pillars), np.int64)
    for frame in range(frames):
        cell[frame] = rng.permutation(max(cells, pillars))[:pillars] % cells
    coords = np.zeros((frames, pillars, 4), np.int64)
    coords[..., 2:] = np.stack(np.divmod(cell, grid[1]), axis=-1)
    counts = rng.integers(pillars // 2, pillars + 1, frames)
    counts[-1:] = pillars
    return {"features": rng.normal(size=features), "coords": coords, "counts": counts}


def _same_cells(rng: np.random.Generator, made: Made) -> None:
    """Several pillars in one cell, of which those that do not count come last."""
    made["coords"][..., 2] = rng.integers(0, 2, made["coords"].shape[:2])
    made["coords"][..., 3] = rng.integers(0, 3, made["coords"].shape[:2])


def _strange(rng: np.random.Generator, made: Made) -> None:
    """Positions outside, invalid numbers of pillars, and first coordinates, which are not read."""
    coords = made["coords"]
    chosen = rng.random(coords.shape[:2]) < 0.3
    far = np.array([-1, -(2**31), 2**31 - 1, 1000])
    coords[chosen, rng.integers(2, 4, chosen.sum())] = rng.choice(far, chosen.sum())
    coords[..., :2] = rng.choice(far, (*coords.shape[:2], 2))
    made["counts"][:4] = [-1, 2**31 - 1, 0, -(2**31)][: len(made["counts"])]


def _case(
    name: str,
    features: tuple[int, int, int],
    grid: tuple[int, int],
    change: Callable[[np.random.Generator, Made], None] | None = None,
    **marks: bool,
) -> Case:
    def make(rng: np.random.Generator) -> Made:
        made = _inputs(rng, features, grid)
        if change is not None:
            change(rng, made)
        return made

    return Case(name, {"output_height": grid[0], "output_width": grid[1]}, make, **marks)


BENCHMARKS = (
    # PointPillars on KITTI and on nuScenes, and four frames of the former.
    _case("kitti_496x432", (1, 12000, 64), (496, 432), large=True),
    _case("nuscenes_512x512", (1, 30000, 64), (512, 512), large=True),
    _case("kitti_batch_4", (4, 12000, 64), (496, 432), large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1), (1, 1)),
    _case("two_frames", (2, 9, 5), (6, 8)),
    _case("odd_cells", (3, 12, 7), (5, 7)),
    _case("more_channels_than_a_block", (1, 10, 37), (4, 9)),
    _case("as_networks_have_it", (2, 40, 64), (12, 16)),
    _case("every_cell", (1, 20, 3), (4, 5)),
    _case("more_cells_than_a_block", (1, 50, 4), (33, 36)),
    _case("same_cells", (2, 30, 6), (4, 6), _same_cells),
    _case("strange_positions_and_numbers", (4, 20, 6), (5, 6), _strange),
    _case("no_pillars", (2, 0, 4), (3, 5)),
    _case("no_channels", (2, 4, 0), (3, 5)),
    _case("no_frames", (0, 4, 3), (3, 5)),
    _case("tiles", (2, 900, 35), (70, 64), large=True, tiles=True),
    *BENCHMARKS,
)


def _huge(side: int, device: str) -> Huge:
    """Two channels: with a side of 33,000, the output has 2.18e9 elements."""
    import torch

    places = torch.tensor([[0, 0], [side // 2, 1], [side - 1, side - 1]], device=device, dtype=torch.int32)
    features = torch.randn(1, 3, 2, device=device, dtype=torch.float16)
    coords = torch.cat([torch.zeros_like(places), places], 1)[None]
    counts = torch.tensor([3], device=device, dtype=torch.int32)
    fields: Fields = {"output_height": side, "output_width": side}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        output = outputs[0][0]
        results = [
            (f"pillar {i}", numbers(output[:, row, column]), numbers(features[0, i]))
            for i, (row, column) in enumerate(places.tolist())
        ]
        last = np.zeros((2, 64))
        last[:, -1] = numbers(features[0, 2])
        results.append(("last cells", numbers(output[:, side - 1, side - 64 :]), last))
        return results

    return Huge(fields, {"features": features, "coords": coords, "counts": counts}, check)


HUGE = HugeCase(_huge, size=33_000, small=150)
