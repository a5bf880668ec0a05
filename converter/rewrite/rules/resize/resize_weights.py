"""Computes, in numpy, the input positions of a Resize's outputs and their interpolation weights.

Formulas: ONNX's Resize and its reference implementation. Cubic: Keys (1981), "Cubic convolution interpolation". All in
float64; weights are rounded once, when they become a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sampling:
    """The interpolation of a Resize, common to all axes."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False

    @property
    def reach(self) -> int:
        """The distance up to which an input has weight, in outputs if antialiasing shrinks, else in inputs."""
        return 2 if self.mode == "cubic" else 1


def places(s: Sampling, size: int, out: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """Returns the input coordinate of each output, float64[out]."""
    y = np.arange(out, dtype=np.float64)
    length = scale * size  # of the output before it was cut to a whole number
    if s.coordinates == "align_corners":
        return np.zeros(out) if length == 1 else y * (size - 1) / (length - 1)
    if s.coordinates == "asymmetric":
        return y / scale
    if s.coordinates == "tf_crop_and_resize":
        if length == 1:
            return np.full(out, (roi[1] - roi[0]) * (size - 1) / 2 + roi[0] * (size - 1))
        return roi[0] * (size - 1) + y * (roi[1] - roi[0]) * (size - 1) / (length - 1)
    x = (y + 0.5) / scale - 0.5
    if s.coordinates == "pytorch_half_pixel" and length == 1:
        return np.full(out, -0.5)
    if s.coordinates == "tf_half_pixel_for_nn":
        return x + 0.5
    if s.coordinates == "half_pixel_symmetric":
        return x + size / 2 * (1 - out / length)
    return x


def nearest_index(s: Sampling, x: np.ndarray, size: int) -> np.ndarray:
    """Returns the nearest input of each output, int64."""
    # Quotients of lengths: what float64 rounds off would move one that is whole, or midway.
    x = np.round(x, 9)
    rounded: np.ndarray = {
        "round_prefer_floor": np.ceil(x - 0.5),
        "round_prefer_ceil": np.floor(x + 0.5),
        "floor": np.floor(x),
        "ceil": np.ceil(x),
    }[s.nearest]
    index: np.ndarray = np.clip(rounded, 0, size - 1).astype(np.int64)
    return index


_GATHERED = 8
"""Neighbours up to which they are gathered, in full float32; more become a matrix product."""


def elements(s: Sampling, size: int, out: int, scale: float) -> tuple[int, int]:
    """Returns the number of taps of all outputs, and of elements of their matrix; 0 for the latter if gathers suffice."""
    count = 1 if s.mode == "nearest" else 2 * _reach(s, scale)[1]
    return out * count, out * size if count > _GATHERED else 0


def _reach(s: Sampling, scale: float) -> tuple[float, int]:
    """The factor by which antialiasing shrinks distances (1 without), and the number of taps on each side."""
    shrink = min(scale, 1.0) if s.antialias else 1.0
    return shrink, math.ceil(s.reach / shrink)


def taps(s: Sampling, x: np.ndarray, size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Computes (index, weight), [out, taps] each. Positions beyond an edge repeat it, or have no weight with
    exclude_outside.
    """
    shrink, reach = _reach(s, scale)
    index = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)[None, :]
    weight = kernel(s, (index - x[:, None]) * shrink)
    if s.exclude_outside:
        weight = np.where((index < 0) | (index >= size), 0.0, weight)
    total = weight.sum(1, keepdims=True)
    if s.antialias or s.exclude_outside:
        weight = weight / np.where(total == 0, 1.0, total)
    return np.clip(index, 0, size - 1), weight


def kernel(s: Sampling, distance: np.ndarray) -> np.ndarray:
    d = np.abs(distance)
    if s.mode == "linear":
        return np.where(d < 1, 1 - d, 0.0)
    a = s.cubic
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def matrix(index: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    """Returns the taps as a matrix, float64[out, size]."""
    result = np.zeros((len(index), size))
    np.add.at(result, (np.arange(len(index))[:, None], index), weight)
    return result
