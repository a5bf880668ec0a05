"""Makes test inputs for the operators that pool regions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case, Fields


def corners(
    rng: np.random.Generator, count: int, batch: int, extent: tuple[float, float], kind: str = "near"
) -> np.ndarray:
    """Makes [count, 5]: (image, x1, y1, x2, y2) for maps of extent (height, width), in the regions' units.

    Coordinates are multiples of 1/8, so that a number of samples that follows from a size is the same in every dtype.
    near: inside and somewhat beyond; small: less than a pixel; turned: corners the wrong way round; far: outside, and much
    larger than the map; strange: no numbers, infinite, and images that do not exist.
    """
    height, width = extent
    span = np.array([width, height])
    first = rng.uniform(-0.2, 0.8, (count, 2)) * span
    size = rng.uniform(0.1, 0.8, (count, 2)) * span
    if kind == "small":
        size = rng.uniform(0.0, 1.0, (count, 2))
    elif kind == "turned":
        size = -size
    elif kind == "far":
        first = rng.uniform(-4, 1, (count, 2)) * span
        size = rng.uniform(0.1, 8, (count, 2)) * span
    boxes = np.round(np.concatenate([first, first + size], 1) * 8) / 8
    regions = np.concatenate([rng.integers(0, max(batch, 1), (count, 1)), boxes], 1)
    return _strange(regions, batch) if kind == "strange" else regions


def rotated(
    rng: np.random.Generator,
    count: int,
    batch: int,
    extent: tuple[float, float],
    kind: str = "near",
    turn: float = 2 * np.pi,
) -> np.ndarray:
    """Makes [count, 6]: (image, centre x, centre y, width, height, angle). kind: as of `corners`; turn: a full one."""
    boxes = corners(rng, count, batch, extent, "near" if kind == "strange" else kind)
    size = boxes[:, 3:5] - boxes[:, 1:3]
    centre = np.round((boxes[:, 1:3] + size / 2) * 8) / 8
    angle = rng.uniform(-turn, turn, (count, 1))
    regions = np.concatenate([boxes[:, :1], centre, size, angle], 1)
    return _strange(regions, batch) if kind == "strange" else regions


def _strange(regions: np.ndarray, batch: int) -> np.ndarray:
    """Every other region has a number that is none, is infinite or beyond all integers, or an image that is not there."""
    values = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9]
    for i, k in enumerate(range(0, len(regions), 2)):
        column = i % (regions.shape[1] + 2)
        if column >= regions.shape[1]:
            regions[k, 0] = (batch, -1)[column - regions.shape[1]]
        else:
            regions[k, column] = values[i % len(values)]
    return regions


def proposals(
    rng: np.random.Generator, count: int, image: tuple[int, int], batch: int = 1, least: float = 16.0
) -> np.ndarray:
    """Makes [count, 5] boxes as a detector proposes them: log-uniform sizes from `least` to 400 pixels inside an image."""
    height, width = image
    size = np.exp(rng.uniform(np.log(least), np.log(400.0), (count, 2)))
    size = np.minimum(size, [width, height])
    first = rng.uniform(size=(count, 2)) * (np.array([width, height]) - size)
    boxes = np.round(np.concatenate([first, first + size], 1) * 8) / 8
    return np.concatenate([rng.integers(0, batch, (count, 1)), boxes], 1)


def turned(rng: np.random.Generator, boxes: np.ndarray) -> np.ndarray:
    """Turns boxes [count, 5] into [count, 6], each rotated about its centre by up to a quarter of a circle either way."""
    size = boxes[:, 3:5] - boxes[:, 1:3]
    angle = rng.uniform(-np.pi / 2, np.pi / 2, (len(boxes), 1))
    return np.concatenate([boxes[:, :1], boxes[:, 1:3] + size / 2, size, angle], 1)


Size = tuple[int, int, int, int]


def region_case(defaults: Fields, name: str, x: Size, rois: int, kind: str = "near", **given: Any) -> Case:
    """Makes regions of a kind on a map, rotated if the fields have a direction of angles."""
    fields = {**defaults, **given}
    extent = (x[2] / fields["spatial_scale"], x[3] / fields["spatial_scale"])
    regions = corners
    if "clockwise" in fields:
        regions = partial(rotated, turn=360.0 if fields["degrees"] else 2 * np.pi)

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"x": rng.normal(size=x), "rois": regions(rng, rois, x[0], extent, kind)}

    return Case(name, fields, make)


def network_case(defaults: Fields, name: str, x: Size, rois: int, **given: Any) -> Case:
    """Makes boxes as a detector proposes them, on the map of an image."""
    fields = {**defaults, **given}
    image = (int(x[2] / fields["spatial_scale"]), int(x[3] / fields["spatial_scale"]))

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"x": rng.normal(size=x), "rois": proposals(rng, rois, image, x[0])}

    return Case(name, fields, make, large=True)
