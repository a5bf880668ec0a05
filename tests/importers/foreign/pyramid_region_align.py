"""RoI align over a feature pyramid, as mmdeploy writes it."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._pyramids import (
    ATTRIBUTES,
    FIELDS,
    SHAPES,
    STRIDES,
    WRONG,
    Boxes,
    inputs,
    oracle,
)
from tests.importers.foreign._regions import Box, largest_sample
from tests.importers.foreign.model import Example, Inconsistent

PYRAMID = "PyramidRegionAlign"
REGIONS = np.array(
    [
        [0, 1.5, 2, 12.25, 9],
        [1, 0, 0, 38, 34],
        [1, -5, 3, 16.5, 20],
        [0, 5, 6, 5, 6],
        [0, 19, 20.5, 45, 40],
        [1, 12, 15, 3, 9],
    ]
)


def regions() -> dict[str, np.ndarray | None]:
    return inputs(REGIONS)


def boxes(aligned: bool, factor: float) -> Boxes:
    """(w + 1) * factor - 1 about the centre, after which an aligned size is 0 at least, another 1."""

    def compute(region: np.ndarray, scale: float) -> tuple[float, Box]:
        x1, y1, x2, y2 = region
        area = (x2 - x1) * (y2 - y1)
        if factor > 0:
            middle_x, middle_y = (x1 + x2) / 2, (y1 + y2) / 2
            half_x, half_y = (x2 - x1 + 1) * factor / 2 - 0.5, (y2 - y1 + 1) * factor / 2 - 0.5
            x1, x2, y1, y2 = middle_x - half_x, middle_x + half_x, middle_y - half_y, middle_y + half_y
        shift, least = (0.5, 0.0) if aligned else (0.0, 1.0)
        width, height = max((x2 - x1) * scale, least), max((y2 - y1) * scale, least)
        return max(area, 0.0) ** 0.5, Box(x1 * scale - shift, y1 * scale - shift, width, height)

    return compute


EXAMPLES = (
    Example(
        PYRAMID,
        "MMCVMultiLevelRoiAlign",
        "mmdeploy",
        ATTRIBUTES | {"featmap_strides": list(STRIDES), "pool_mode": 1},
        regions,
        oracle(boxes(True, 1.25), 2),
    ),
    Example(
        PYRAMID,
        "MMCVMultiLevelRoiAlign",
        "mmdeploy",
        ATTRIBUTES
        | {
            "featmap_strides": list(STRIDES),
            "pool_mode": 0,
            "aligned": 0,
            "roi_scale_factor": -1.0,
            "sampling_ratio": 0,
        },
        regions,
        oracle(boxes(False, -1.0), 0, largest_sample),
        note="max",
    ),
    Example(
        PYRAMID,
        PYRAMID,
        "trtsmith",
        FIELDS | {"pooling": 1, "aligned": 0},
        regions,
        oracle(boxes(False, 1.25), 2, largest_sample),
    ),
)

INCONSISTENT = (
    *(Inconsistent(PYRAMID, SHAPES, change, message, FIELDS) for change, message in WRONG),
    Inconsistent(
        PYRAMID, SHAPES, {}, "for 4 levels", FIELDS, {"strides": [2.0, 0.0, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0]}
    ),
)


HUGE = "its kernel is RoI align's, whose case of more than 2^31 elements stands for it: only the level is chosen before"
