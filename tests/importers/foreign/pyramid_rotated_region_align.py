"""RoI align of rotated boxes over a feature pyramid, as mmdeploy writes it."""

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
from tests.importers.foreign._regions import Box
from tests.importers.foreign.model import Example, Inconsistent

PYRAMID = "PyramidRotatedRegionAlign"
REGIONS = np.array(
    [
        [0, 7.5, 8, 9.25, 7, 0.4],
        [1, 18, 17, 36, 34, -1.3],
        [1, -1, 7, 21.5, 14, 2.6],
        [0, 5, 6, 0, 0, 0.2],
        [0, 37, 30.5, 26, 39, 4.1],
        [1, 12.5, 9.25, 1, 16, -0.7],
    ]
)


def regions() -> dict[str, np.ndarray | None]:
    return inputs(REGIONS)


def boxes(aligned: bool, factor: float, clockwise: bool) -> Boxes:
    """Sides are one pixel at least, aligned or not."""

    def compute(region: np.ndarray, scale: float) -> tuple[float, Box]:
        x, y, width, height, angle = region
        area = width * height
        if factor > 0:
            width, height = width * factor, height * factor
        shift = 0.5 if aligned else 0.0
        width, height = max(width * scale, 1.0), max(height * scale, 1.0)
        corner = x * scale - shift - width / 2, y * scale - shift - height / 2
        return max(area, 0.0) ** 0.5, Box(*corner, width, height, -angle if clockwise else angle)

    return compute


EXAMPLES = (
    Example(
        PYRAMID,
        "MMCVMultiLevelRotatedRoiAlign",
        "mmdeploy",
        ATTRIBUTES | {"featmap_strides": list(STRIDES), "clockwise": 1},
        regions,
        oracle(boxes(True, 1.25, True), 2),
    ),
    Example(
        PYRAMID,
        "MMCVMultiLevelRotatedRoiAlign",
        "mmdeploy",
        ATTRIBUTES
        | {
            "featmap_strides": list(STRIDES),
            "clockwise": 0,
            "aligned": 0,
            "roi_scale_factor": -1.0,
            "sampling_ratio": 0,
        },
        regions,
        oracle(boxes(False, -1.0, False), 0),
        note="adaptive",
    ),
    Example(
        PYRAMID, PYRAMID, "trtsmith", FIELDS | {"clockwise": 0}, regions, oracle(boxes(True, 1.25, False), 2)
    ),
)

ROTATED_SHAPES = SHAPES | {"rois": (6, 6)}

INCONSISTENT = (
    *(Inconsistent(PYRAMID, ROTATED_SHAPES, change, message, FIELDS) for change, message in WRONG),
    Inconsistent(PYRAMID, ROTATED_SHAPES, {}, "sampling_ratio = 1025", FIELDS, {"sampling_ratio": 1025}),
)


HUGE = "its kernel is RoI align's, whose case of more than 2^31 elements stands for it: only the positions differ"
