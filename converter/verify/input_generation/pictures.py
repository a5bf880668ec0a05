"""Cuts image inputs out of photographs in which detectors find objects."""

from __future__ import annotations

from functools import cache
from importlib import resources

import numpy as np

LEAST_SIDE = 28
"""The least pixels of an input that is taken for an image: MNIST's number."""

_SMALLEST = 0.6
"""Side of the smallest cut-out, over that of the picture."""


def channel_axis(shape: tuple[int | None, ...]) -> int | None:
    """Returns the axis of colours, -3 or -1, of a batch of images in colour or grey; None for anything else."""
    if len(shape) != 4:
        return None
    for axis, sides in ((-3, shape[-2:]), (-1, shape[1:3])):
        if shape[axis] in (1, 3) and all(side is not None and side >= LEAST_SIDE for side in sides):
            return axis
    return None


def cut_outs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Returns another cut-out for each image of a batch, from 0 to 1. shape: one that has a channel axis."""
    axis = channel_axis(shape)
    assert axis is not None
    height, width = shape[-2:] if axis == -3 else shape[1:3]
    images = np.empty((shape[0], height, width, shape[axis]), np.float32)
    start = int(rng.integers(len(_pictures())))
    for number in range(shape[0]):
        picture = _pictures()[(start + number) % len(_pictures())]
        size = len(picture) * rng.uniform(_SMALLEST, 1.0)
        corner = rng.uniform(0, len(picture) - size, 2)
        for side, pixels in enumerate((height, width)):
            part = size * (pixels / max(height, width))
            picture = _resampled(picture, corner[side], part, pixels, side)
        images[number] = picture if shape[axis] == 3 else picture.mean(axis=2, keepdims=True)
    return np.moveaxis(images, -1, axis)


def _resampled(picture: np.ndarray, start: float, size: float, pixels: int, axis: int) -> np.ndarray:
    """So many pixels of a stretch of the picture along an axis, linearly between its own."""
    at = np.clip(start + (np.arange(pixels) + 0.5) * (size / pixels) - 0.5, 0, picture.shape[axis] - 1)
    low = np.floor(at).astype(int)
    share = (at - low).astype(np.float32).reshape([-1 if a == axis else 1 for a in range(3)])
    below, above = (picture.take(np.minimum(i, picture.shape[axis] - 1), axis) for i in (low, low + 1))
    return np.asarray(below + (above - below) * share, np.float32)


@cache
def _pictures() -> np.ndarray:
    """[pictures, rows, columns, 3] from 0 to 1."""
    with resources.files(__package__).joinpath("pictures.npz").open("rb") as file:
        steps = np.load(file)["pictures"]
    return np.cumsum(steps, axis=2, dtype=np.uint8).astype(np.float32) / 255
