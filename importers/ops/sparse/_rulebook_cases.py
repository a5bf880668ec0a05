"""Makes test inputs for rulebooks, and lists the sizes of networks that use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case
from trtsmith.importers.ops._shared import Made

Grid = tuple[int, int, int, int]
"""Images, then cells along (z, y, x)."""

_WALLS = 150


def scan(rng: np.random.Generator, rows: int, grid: Grid) -> np.ndarray:
    """Makes [rows, 4] different cells (batch, z, y, x) of ground and walls, in order; those nearest to the middle are kept.

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
        length = int(rng.integers(around // 8 + 1, around // 2 + 2))
        high = int(rng.integers(3, max(4, depth // 2)))
        step, up = np.mgrid[:length, :high].reshape(2, -1)
        along = int(rng.integers(0, 2))
        wall = np.stack(
            [int(0.3 * depth) + up, start[0] + step * along, start[1] + step * (1 - along)], axis=1
        )
        made.append(wall[rng.random(len(wall)) < 0.85])
    return np.concatenate(made)


def neighbours(cells: np.ndarray, grid: Grid, kernel: Sequence[int]) -> np.ndarray:
    """Returns [K, rows]: the row that each tap of a submanifold convolution reads, or -1. Cells are different."""
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


Change = Callable[[np.random.Generator, np.ndarray], None]


def cells(rng: np.random.Generator, rows: int, grid: Grid) -> np.ndarray:
    """Makes [rows, 4] different cells of a grid in random order, or all cells if there are fewer."""
    count = int(np.prod(grid))
    if count < 4 * rows:
        chosen = rng.permutation(max(count, rows))[:rows] % count
    else:
        chosen = np.unique(rng.integers(0, count, rows + rows // 2 + 8))
        chosen = rng.permutation(chosen)[:rows]
    return np.stack(np.unravel_index(chosen, grid), axis=1).astype(np.int64)


def _strange(rng: np.random.Generator, indices: np.ndarray) -> None:
    """Rows outside of the grid, and rows with the same coordinates."""
    chosen = rng.random(len(indices)) < 0.2
    far = np.array([-1, -(2**31), 2**31 - 1, 1000, 5])
    indices[chosen, rng.integers(0, 4, chosen.sum())] = rng.choice(far, chosen.sum())
    again = rng.integers(0, len(indices), len(indices) // 3)
    indices[rng.permutation(len(indices))[: len(again)]] = indices[again]


def _any_order(rng: np.random.Generator, indices: np.ndarray) -> None:
    indices[:] = rng.permutation(indices)


def _together(_rng: np.random.Generator, indices: np.ndarray) -> None:
    """All in one cell."""
    indices[:] = indices[:1]


def _apart(_rng: np.random.Generator, indices: np.ndarray) -> None:
    """Every third cell of a row, so that no two reach the same cell."""
    indices[:] = 0
    indices[:, 3] = 3 * np.arange(len(indices)) + 1


def _outside(_rng: np.random.Generator, indices: np.ndarray) -> None:
    indices[:, 1] = -1


def _inputs(
    make: Callable[[np.random.Generator, int, Grid], np.ndarray], rows: int, grid: Grid, change: Change | None
) -> Callable[[np.random.Generator], Made]:
    def inputs(rng: np.random.Generator) -> Made:
        indices = make(rng, rows, grid)
        if change is not None:
            change(rng, indices)
        return {"indices": indices}

    return inputs


Three = tuple[int, int, int]
ONES: Three = (1, 1, 1)


def _fields(grid: Grid, kernel: Three, dilation: Three) -> dict[str, Any]:
    return {
        "batch_size": grid[0],
        "spatial_shape": grid[1:],
        "kernel_size": kernel,
        "dilation": dilation,
    }


def _submanifold(
    name: str,
    rows: int,
    grid: Grid,
    kernel: Three = (3, 3, 3),
    dilation: Three = ONES,
    change: Change | None = None,
    make: Callable[[np.random.Generator, int, Grid], np.ndarray] = cells,
    **marks: bool,
) -> Case:
    return Case(name, _fields(grid, kernel, dilation), _inputs(make, rows, grid, change), **marks)


def _strided(
    name: str,
    rows: int,
    grid: Grid,
    kernel: Three = (3, 3, 3),
    stride: Three = (2, 2, 2),
    padding: Three = ONES,
    dilation: Three = ONES,
    limit: int = 0,
    change: Change | None = None,
    make: Callable[[np.random.Generator, int, Grid], np.ndarray] = cells,
    **marks: bool,
) -> Case:
    fields = {**_fields(grid, kernel, dilation), "stride": stride, "padding": padding, "limit": limit}
    return Case(name, fields, _inputs(make, rows, grid, change), **marks)


SUBMANIFOLD_BENCHMARKS = (
    # CenterPoint and BEVFusion on nuScenes: the grid of their first stage and of the two after it.
    _submanifold("nuscenes_100000", 100_000, (1, 41, 1440, 1440), make=scan, large=True),
    _submanifold("nuscenes_60000_half", 60_000, (1, 21, 720, 720), make=scan, large=True),
    _submanifold("nuscenes_batch_4", 200_000, (4, 41, 1440, 1440), make=scan, large=True),
    _submanifold(
        "nuscenes_100000_any_order", 100_000, (1, 41, 1440, 1440), change=_any_order, make=scan, large=True
    ),
)

SUBMANIFOLD_CASES = (
    _submanifold("one_of_each", 1, (1, 1, 1, 1), kernel=ONES),
    _submanifold("two_images", 40, (2, 4, 5, 6)),
    _submanifold("every_cell", 60, (1, 3, 4, 5)),
    _submanifold("odd_grid", 50, (3, 5, 3, 7)),
    _submanifold("long_kernel", 50, (2, 6, 5, 9), kernel=(1, 3, 5)),
    _submanifold("tall_kernel", 50, (2, 9, 5, 3), kernel=(7, 1, 1)),
    _submanifold("dilated", 80, (1, 7, 8, 9), dilation=(1, 2, 3)),
    _submanifold("dilated_far_out", 30, (1, 4, 4, 4), dilation=(2**31 - 1, 2**31 - 2, 5)),
    _submanifold("more_rows_than_a_block", 700, (2, 8, 16, 16)),
    _submanifold("strange_rows", 120, (2, 4, 6, 6), change=_strange),
    _submanifold("same_cell", 70, (1, 4, 4, 4), change=_together),
    _submanifold("all_outside", 9, (1, 4, 4, 4), change=_outside),
    _submanifold("huge_grid", 90, (3, 2**14, 2**15, 2**31 - 1), make=lambda rng, rows, _: _corner(rng, rows)),
    _submanifold("as_networks_have_it", 500, (1, 11, 90, 90), make=scan),
    _submanifold("no_rows", 0, (2, 4, 4, 4)),
    _submanifold("tiles", 20_000, (2, 21, 200, 200), make=scan, large=True, tiles=True),
    *SUBMANIFOLD_BENCHMARKS,
)

STRIDED_CASES = (
    _strided("one_of_each", 1, (1, 1, 1, 1), kernel=ONES, stride=ONES, padding=(0, 0, 0)),
    _strided("two_images", 40, (2, 4, 5, 6)),
    _strided("every_cell", 60, (1, 3, 4, 5)),
    _strided("stride_1", 40, (2, 4, 5, 6), stride=ONES),
    _strided("without_padding", 50, (2, 7, 9, 8), padding=(0, 0, 0)),
    _strided("as_the_last_stage", 60, (1, 5, 9, 9), (3, 1, 1), (2, 1, 1), (0, 0, 0)),
    _strided("kernel_2", 60, (2, 6, 6, 8), (2, 2, 2), padding=(0, 0, 0)),
    _strided("kernel_smaller_than_stride", 60, (2, 6, 7, 8), (1, 2, 1), (2, 3, 4), (0, 0, 0)),
    _strided("dilated", 60, (1, 9, 9, 9), stride=(2, 3, 1), dilation=(2, 2, 3), padding=(2, 0, 3)),
    _strided("padded_beyond_the_kernel", 20, (1, 3, 3, 3), (1, 2, 3), ONES, (2, 3, 4)),
    _strided("kernel_does_not_fit", 20, (1, 2, 5, 5), padding=(0, 0, 0)),
    _strided("bound_reached", 8, (1, 1, 1, 24), (1, 1, 3), ONES, (0, 0, 1), change=_apart),
    _strided("same_cell", 90, (1, 8, 8, 8), (2, 2, 2), padding=(0, 0, 0), change=_together),
    _strided("limit", 60, (2, 6, 6, 8), limit=17),
    _strided("limit_beyond", 30, (2, 6, 6, 8), limit=100_000),
    _strided("strange_rows", 120, (2, 4, 6, 6), change=_strange),
    _strided("strange_rows_and_a_limit", 120, (2, 4, 6, 6), limit=9, change=_strange),
    _strided("all_outside", 9, (1, 4, 4, 4), change=_outside),
    _strided("more_rows_than_a_block", 700, (2, 8, 16, 16)),
    _strided("odd_words", 300, (3, 5, 17, 23), stride=ONES),
    _strided("far_out", 20, (2, 4, 4, 4), (1, 1, 2), ONES, (0, 0, 2**20), dilation=(1, 1, 2**20)),
    _strided("as_networks_have_it", 500, (1, 11, 90, 90), make=scan),
    _strided("no_rows", 0, (2, 4, 4, 4)),
    _strided("tiles", 20_000, (2, 21, 200, 200), make=scan, large=True, tiles=True),
    _strided("nuscenes_100000", 100_000, (1, 41, 1440, 1440), make=scan, large=True),
    _strided("nuscenes_last_stage", 30_000, (1, 5, 180, 180), (3, 1, 1), (2, 1, 1), (0, 0, 0), large=True),
)


def _corner(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Cells near the end of a grid of 3 * 2**60 cells."""
    indices = cells(rng, rows, (3, 5, 5, 5))
    indices[:, 1:] += np.array([2**14, 2**15, 2**31 - 1]) - 5
    return indices
