"""Makes cells of a grid as a LiDAR's frame fills them, and finds their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Grid = tuple[int, int, int, int]
"""Images, then cells along (z, y, x)."""

_WALLS = 150


def scan(rng: np.random.Generator, rows: int, grid: Grid) -> np.ndarray:
    """[rows, 4] different cells (batch, z, y, x) in order: ground and walls, of which the nearest to the middle are kept.

    About 10 of the 27 cells around one are there, and rows that follow one another mostly have the same ones, as in real
    frames.
    """
    images, depth, height, width = grid
    each = -(-rows // images)
    parts = []
    for image in range(images):
        wanted = min(each, rows - image * each)
        around = int(np.sqrt(each / 2.4)) + 4
        made = _around(rng, around, depth) + np.array([0, height // 2, width // 2])
        made = np.unique(made[((made >= 0) & (made < np.array(grid[1:]))).all(1)], axis=0)
        far = ((made[:, 1:] - [height // 2, width // 2]) ** 2).sum(1)
        nearest = made[np.sort(np.argsort(far, kind="stable")[:wanted])]
        if len(nearest) < wanted:
            raise ValueError(f"a grid of {grid} has no room for a scan of {rows} cells")
        parts.append(np.insert(nearest, 0, image, axis=1))
    return np.concatenate(parts)


def _around(rng: np.random.Generator, around: int, depth: int) -> np.ndarray:
    """[n, 3] cells (z, y, x) of uneven ground and of walls on it, y and x from -around to around."""
    y, x = np.mgrid[-around : around + 1, -around : around + 1].reshape(2, -1)
    z = np.floor(0.3 * depth + 0.011 * y + 0.007 * x + 0.6 * np.sin(y / 37)).astype(np.int64)
    ground = np.stack([z, y, x], axis=1)
    made = [ground[rng.random(len(y)) < 0.93], (ground + np.array([1, 0, 0]))[rng.random(len(y)) < 0.2]]
    for _ in range(_WALLS):
        start = rng.integers(-around, around + 1, 2)
        length, high = (
            int(rng.integers(around // 8 + 1, around // 2 + 2)),
            int(rng.integers(3, max(4, depth // 2))),
        )
        step, up = np.mgrid[:length, :high].reshape(2, -1)
        along = int(rng.integers(0, 2))
        wall = np.stack(
            [int(0.3 * depth) + up, start[0] + step * along, start[1] + step * (1 - along)], axis=1
        )
        made.append(wall[rng.random(len(wall)) < 0.85])
    return np.concatenate(made)


def neighbours(cells: np.ndarray, grid: Grid, kernel: Sequence[int]) -> np.ndarray:
    """[K, rows]: the row of the cell that each tap of a submanifold convolution reads, or -1. Cells are different."""
    keys = np.ravel_multi_index(tuple(cells.T), grid)
    order = np.argsort(keys)
    ordered = keys[order]
    pairs = []
    for tap in np.ndindex(*kernel):
        moved = cells + np.array([0, *(at - size // 2 for at, size in zip(tap, kernel, strict=True))])
        inside = ((moved >= 0) & (moved < np.array(grid))).all(1)
        wanted = np.ravel_multi_index(tuple(np.where(inside[:, None], moved, 0).T), grid)
        at = np.searchsorted(ordered, wanted).clip(max=len(cells) - 1)
        pairs.append(np.where(inside & (ordered[at] == wanted), order[at], -1))
    return np.stack(pairs)
