"""Shared by the examples of pooling regions: inputs, and an oracle that goes sample by sample.

Bilinear interpolation is a sum over all pixels, of a position that was moved onto the map if it was up to a pixel outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.importers.oracles import tent

Pool = Callable[[np.ndarray], np.ndarray]
"""[C] out of the corners of a bin's samples times their weights, [samples, C, 4]."""


def average(corners: np.ndarray) -> np.ndarray:
    return np.asarray(corners.sum(2).mean(0))


def largest_sample(corners: np.ndarray) -> np.ndarray:
    return np.asarray(corners.sum(2).max(0))


def largest_corner(corners: np.ndarray) -> np.ndarray:
    return np.asarray(corners.max((0, 2)))


@dataclass(frozen=True)
class Box:
    """A region on a map: its first corner and its size in pixels; angle: by which it is turned about its centre."""

    left: float
    top: float
    width: float
    height: float
    angle: float = 0.0


def sample(feature: np.ndarray, y: float, x: float) -> np.ndarray:
    """[C, 4]: the corners of a position times their weights; zeros farther than a pixel outside of the map."""
    channels, height, width = feature.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros((channels, 4))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    down, across = tent(np.array(y), height), tent(np.array(x), width)
    shares = down[:, None] * across[None, :]
    values = (feature * shares).reshape(channels, -1)
    # Of four neighbours some may be one, or have no share: what is not there counts as zero, as it does in the kernels.
    used = np.flatnonzero(shares.ravel())
    return np.pad(values[:, used], ((0, 0), (0, 4 - len(used))))


def positions(
    box: Box, bins: tuple[int, int], bin_: tuple[int, int], ratio: int
) -> Iterator[tuple[float, float]]:
    """(y, x) of the samples of one bin."""
    down = ratio if ratio > 0 else int(np.ceil(box.height / bins[0]))
    across = ratio if ratio > 0 else int(np.ceil(box.width / bins[1]))
    for i in range(down):
        for j in range(across):
            y = (bin_[0] + (i + 0.5) / down) * box.height / bins[0] - box.height / 2
            x = (bin_[1] + (j + 0.5) / across) * box.width / bins[1] - box.width / 2
            turned = (
                y * np.cos(box.angle) - x * np.sin(box.angle),
                y * np.sin(box.angle) + x * np.cos(box.angle),
            )
            yield turned[0] + box.top + box.height / 2, turned[1] + box.left + box.width / 2


def pooled(
    feature: np.ndarray, box: Box, bins: tuple[int, int], ratio: int, pool: Pool = average
) -> np.ndarray:
    """[C, PH, PW] of a map [C, H, W]."""
    output = np.zeros((feature.shape[0], *bins))
    for i in range(bins[0]):
        for j in range(bins[1]):
            corners = [
                sample(feature.astype(np.float64), y, x) for y, x in positions(box, bins, (i, j), ratio)
            ]
            if corners:
                output[:, i, j] = pool(np.array(corners))
    return output


def corner_box(region: np.ndarray, scale: float, aligned: bool) -> Box:
    """Of a region (x1, y1, x2, y2): torchvision's rule."""
    x1, y1, x2, y2 = (float(number) * scale - (0.5 if aligned else 0.0) for number in region)
    width, height = x2 - x1, y2 - y1
    return Box(x1, y1, width if aligned else max(width, 1.0), height if aligned else max(height, 1.0))


def maps(shape: tuple[int, ...] = (2, 4, 9, 8), seed: int = 11) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def boxes() -> np.ndarray:
    """[6, 5]: (image, x1, y1, x2, y2) on maps of 9 x 8 pixels with a scale of 0.5; one beyond the edge, one of no size."""
    return np.array(
        [
            [0, 1.5, 2, 12.25, 14],
            [1, 0, 0, 16, 18],
            [1, -7, 3, 4.5, 11],
            [0, 5, 6, 5, 6],
            [0, 9, 10.5, 25, 30],
            [1, 3, 1.25, 4, 17],
        ],
        np.float32,
    )
