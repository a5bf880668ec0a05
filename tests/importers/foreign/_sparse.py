"""Rulebooks by comparing every cell with every other one, for the examples of sparse convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays

GRID = (2, 5, 6, 7)
ROWS = 40


def autoware(kernel: Sequence[int], dilation: Sequence[int], **other: Any) -> dict[str, Any]:
    """Attributes of Autoware's nodes; without more, those of a submanifold convolution."""
    attributes = {"batch_size": GRID[0], "spatial_shape": list(GRID[1:]), "algo": 1, "ksize": list(kernel)}
    attributes |= {"stride": [1, 1, 1], "padding": [0, 0, 0], "dilation": list(dilation)}
    return attributes | {"out_padding": [0, 0, 0], "subm": 1, "transpose": 0, "is_train": 0} | other


def cells() -> dict[str, np.ndarray | None]:
    """Different cells of two images, in any order."""
    chosen = np.random.default_rng(11).permutation(int(np.prod(GRID)))[:ROWS]
    return {"indices": np.stack(np.unravel_index(chosen, GRID), axis=1).astype(np.int32)}


def offsets(kernel: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """[K, 4]: how far each tap is from the first one, in cells; 0 for the image."""
    z, y, x = (np.arange(size) * step for size, step in zip(kernel, dilation, strict=True))
    grid = np.stack(np.meshgrid([0], z, y, x, indexing="ij"), axis=-1)
    return grid.reshape(-1, 4)


def rows_at(wanted: np.ndarray, cells_of_rows: np.ndarray) -> np.ndarray:
    """[...]: the row whose cell each wanted cell [..., 4] is, or -1."""
    same = (wanted[..., None, :] == cells_of_rows).all(-1)
    return np.where(same.any(-1), same.argmax(-1), -1)


def submanifold(arrays: Arrays, kernel: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """[K, N]"""
    indices = arrays["indices"].astype(np.int64)
    middle = np.array([0, *((size // 2) * step for size, step in zip(kernel, dilation, strict=True))])
    return rows_at(indices + (offsets(kernel, dilation) - middle)[:, None], indices)


def strided(
    arrays: Arrays,
    kernel: Sequence[int],
    dilation: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    out: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Cells of the output [M, 4] and pairs [K, M], by asking every cell of the output's grid of the size `out`."""
    indices = arrays["indices"].astype(np.int64)
    every = np.stack(np.meshgrid(*(np.arange(size) for size in (GRID[0], *out)), indexing="ij"), -1).reshape(
        -1, 4
    )
    first = every * [1, *stride] - [0, *padding]
    pairs = rows_at(first + offsets(kernel, dilation)[:, None], indices)
    met = (pairs >= 0).any(0)
    return every[met], pairs[:, met]


def masks(pairs: np.ndarray) -> np.ndarray:
    """[M, 1]: the bits of the taps that each row has."""
    bits = (pairs >= 0) * (1 << np.arange(len(pairs)))[:, None]
    return bits.sum(0)[:, None]
