"""RoI pooling by whole pixels, as ONNX and torchvision write it. The oracle tests every pixel for every bin."""

from __future__ import annotations

from math import ceil, floor

import numpy as np

from tests.importers.foreign._regions import boxes, maps
from tests.importers.foreign.model import Arrays, Example, Inconsistent

POOL = "RegionPool"
BINS = (3, 2)


def inputs() -> dict[str, np.ndarray | None]:
    return {"x": maps((2, 12, 9, 8)), "rois": boxes()}


def torchvision() -> dict[str, np.ndarray | None]:
    numbers = {"pooled_height": BINS[0], "pooled_width": BINS[1]}
    return {
        **inputs(),
        "spatial_scale": np.array(0.5),
        **{name: np.array(value, np.int64) for name, value in numbers.items()},
    }


def away_from_zero(number: float) -> int:
    return int(np.sign(number)) * floor(abs(number) + 0.5)


def bins_of(pixel: int, low: float, high: float, count: int, extra: int) -> list[int]:
    start, stop = away_from_zero(low * 0.5), away_from_zero(high * 0.5)
    size = max(stop - start + extra, 1) / count
    return [b for b in range(count) if floor(b * size) <= pixel - start < ceil((b + 1) * size)]


def members(arrays: Arrays, extra: int) -> list[list[list[np.ndarray]]]:
    """The pixels [C] of each bin of each region; extra: what a region has beside the distance of its corners."""
    x, found = arrays["x"].astype(np.float64), []
    for image, left, top, right, bottom in arrays["rois"].astype(np.float64):
        grid: list[list[np.ndarray]] = [[] for _ in range(BINS[0] * BINS[1])]
        for y, at in np.ndindex(x.shape[2] - 1 + extra, x.shape[3] - 1 + extra):
            for i in bins_of(y, top, bottom, BINS[0], extra):
                for j in bins_of(at, left, right, BINS[1], extra):
                    grid[i * BINS[1] + j].append(x[int(image), :, y, at])
        found.append(grid)
    return found


def largest(arrays: Arrays) -> np.ndarray:
    none = np.zeros(arrays["x"].shape[1])
    regions = [[np.max(b, axis=0) if b else none for b in grid] for grid in members(arrays, 1)]
    return np.array(regions).transpose(0, 2, 1).reshape(len(regions), -1, *BINS)


def by_position(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """And the input channel of every element."""
    none = np.zeros(arrays["x"].shape[1])
    regions = [[np.mean(b, axis=0) if b else none for b in grid] for grid in members(arrays, 0)]
    bins = BINS[0] * BINS[1]
    own = np.array([[[grid[b][c * bins + b] for b in range(bins)] for c in range(2)] for grid in regions])
    channels = np.arange(12).reshape(2, *BINS)
    return own.reshape(-1, 2, *BINS), np.broadcast_to(channels, (len(regions), 2, *BINS))


ARGUMENTS = frozenset({"spatial_scale", "pooled_height", "pooled_width"})
FIELDS = {"output_height": BINS[0], "output_width": BINS[1], "spatial_scale": 0.5, "by_position": 0}
OWN = {**FIELDS, "by_position": 1}

EXAMPLES = (
    Example(
        POOL, "MaxRoiPool", "", {"pooled_shape": BINS, "spatial_scale": 0.5}, inputs, largest, version=11
    ),
    Example(POOL, "roi_pool", "torchvision", {}, torchvision, largest, constants=ARGUMENTS),
    Example(
        POOL,
        "ps_roi_pool",
        "torchvision",
        {},
        torchvision,
        by_position,
        constants=ARGUMENTS,
        types=("T", "S"),
    ),
    Example(POOL, POOL, "trtsmith", FIELDS, inputs, largest),
    Example(POOL, POOL, "trtsmith", OWN, inputs, lambda arrays: by_position(arrays)[0], note="by_position"),
)

SHAPES = {"x": (2, 12, 9, 8), "rois": (6, 5)}

INCONSISTENT = (
    Inconsistent(POOL, SHAPES, {"rois": (6, 4)}, "rois[1] = 4, not 5", FIELDS),
    Inconsistent(POOL, SHAPES, {"x": (2, 13, 9, 8)}, "x[1] = 13, which 6 bins do not divide", OWN),
    Inconsistent(POOL, SHAPES, {"x": (1, 6, 65536, 32768)}, "65536 x 32768 pixels", FIELDS),
)


HUGE = "a thread reads one bin of one plane, and addresses are 64-bit: RoI align's case stands for those"
