"""Shared by the examples of RoI align over a feature pyramid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.foreign._regions import Box, Pool, average, maps, pooled
from tests.importers.foreign.model import Arrays

BINS = (3, 2)
STRIDES = (2.0, 4.0, 8.0, 16.0)
FINEST = 4
SHAPES = {"rois": (6, 5), "x0": (2, 4, 17, 19), "x1": (2, 4, 9, 10), "x2": (2, 4, 5, 5), "x3": (2, 4, 3, 2)}

Boxes = Callable[[np.ndarray, float], tuple[float, Box]]
"""A region without its image and a scale of its level to the root of its area, and its box on that level."""


def inputs(regions: np.ndarray) -> dict[str, np.ndarray | None]:
    features = {name: maps(shape, i) for i, (name, shape) in enumerate(list(SHAPES.items())[1:])}
    return {"rois": regions.astype(np.float32), **features}


def oracle(boxes: Boxes, ratio: int, pool: Pool = average) -> Callable[[Arrays], np.ndarray]:
    """mmdeploy's rule of levels: floor(log2(size / finest_scale + 1e-6)), among those that there are."""

    def compute(arrays: Arrays) -> np.ndarray:
        features = [array.astype(np.float64) for name, array in arrays.items() if name != "rois"]
        found = []
        for region in arrays["rois"].astype(np.float64):
            size, _ = boxes(region[1:], 1.0)
            level = int(np.clip(np.floor(np.log2(size / FINEST + 1e-6)), 0, len(features) - 1))
            _, box = boxes(region[1:], 1 / STRIDES[level])
            found.append(pooled(features[level][int(region[0])], box, BINS, ratio, pool))
        return np.stack(found)

    return compute


ATTRIBUTES: dict[str, Any] = {
    "output_height": BINS[0],
    "output_width": BINS[1],
    "sampling_ratio": 2,
    "finest_scale": FINEST,
    "aligned": 1,
    "roi_scale_factor": 1.25,
}
FIELDS: dict[str, Any] = ATTRIBUTES | {"strides": [*STRIDES, 0.0, 0.0, 0.0, 0.0]}

WRONG: tuple[tuple[dict[str, tuple[int, ...]], str], ...] = (
    ({"x1": (1, 4, 9, 10)}, "batch differ: x0[0] = 2, x1[0] = 1"),
    ({"x2": (2, 3, 5, 5)}, "channels differ"),
    ({"x4": (2, 4, 3, 3)}, "for 5 levels"),
    ({"x0": (2, 4, 65536, 32768)}, "65536 x 32768 pixels"),
    ({"rois": (6, 4)}, "rois[1] = 4"),
)
