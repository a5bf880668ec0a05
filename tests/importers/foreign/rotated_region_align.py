"""RoI align of rotated boxes, as other tools write it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.importers.foreign._regions import Box, maps, pooled
from tests.importers.foreign.model import Arrays, Example, Inconsistent

ROTATED = "RotatedRegionAlign"
BINS = (3, 2)


def rotated_boxes(unit: float = 1.0) -> np.ndarray:
    """[6, 6]: (image, centre x, centre y, width, height, angle) on maps of 9 x 8 pixels with a scale of 0.5."""
    boxes = np.array(
        [
            [0, 7.5, 8, 9.25, 12, 0.4],
            [1, 8, 9, 15, 18, -1.3],
            [1, -1, 7, 11.5, 8, 2.6],
            [0, 5, 6, 0, 0, 0.2],
            [0, 17, 20.5, 16, 19, 4.1],
            [1, 3.5, 9.25, 1, 16, -0.7],
        ]
    )
    boxes[:, 5] *= unit
    return boxes.astype(np.float32)


def oracle(aligned: bool, ratio: int, clockwise: bool, unit: float = 1.0) -> Callable[[Arrays], np.ndarray]:
    """unit: of the angle, in radians."""

    def compute(inputs: Arrays) -> np.ndarray:
        x, regions = inputs["x"].astype(np.float64), inputs["rois"].astype(np.float64)
        found = []
        for image, centre_x, centre_y, width, height, angle in regions:
            least = -np.inf if aligned else 1.0
            size = max(width * 0.5, least), max(height * 0.5, least)
            shift = 0.5 if aligned else 0.0
            corner = centre_x * 0.5 - shift - size[0] / 2, centre_y * 0.5 - shift - size[1] / 2
            box = Box(*corner, *size, angle * unit * (-1 if clockwise else 1))
            found.append(pooled(x[int(image)], box, BINS, ratio))
        return np.stack(found)

    return compute


def in_radians() -> dict[str, np.ndarray | None]:
    return {"x": maps(), "rois": rotated_boxes()}


def in_degrees() -> dict[str, np.ndarray | None]:
    return {"x": maps(), "rois": rotated_boxes(180 / np.pi)}


def detectron2() -> dict[str, np.ndarray | None]:
    """As the exporter falls through: every argument an input."""
    numbers = {"pooled_height": BINS[0], "pooled_width": BINS[1], "sampling_ratio": 2}
    return {
        **in_degrees(),
        "spatial_scale": np.array(0.5),
        **{name: np.array(value, np.int64) for name, value in numbers.items()},
    }


ARGUMENTS = frozenset({"spatial_scale", "pooled_height", "pooled_width", "sampling_ratio"})
SIZE = {"output_height": BINS[0], "output_width": BINS[1], "spatial_scale": 0.5}
CAFFE2 = {"order": "NCHW", "spatial_scale": 0.5, "pooled_h": BINS[0], "pooled_w": BINS[1]}

EXAMPLES = (
    Example(
        ROTATED,
        "MMCVRoIAlignRotated",
        "mmcv",
        SIZE | {"sampling_ratio": 2, "aligned": 1, "clockwise": 1},
        in_radians,
        oracle(True, 2, True),
    ),
    Example(
        ROTATED,
        "MMCVRoIAlignRotated",
        "mmdeploy",
        SIZE | {"sampling_ratio": 0, "aligned": 0, "clockwise": 0},
        in_radians,
        oracle(False, 0, False),
        note="adaptive",
    ),
    Example(
        ROTATED,
        "roi_align_rotated_forward",
        "detectron2",
        {},
        detectron2,
        oracle(True, 2, False, np.pi / 180),
        constants=ARGUMENTS,
    ),
    Example(
        ROTATED,
        "RoIAlignRotated",
        "org.pytorch._caffe2",
        CAFFE2 | {"sampling_ratio": 3, "aligned": 0},
        in_degrees,
        oracle(False, 3, False, np.pi / 180),
    ),
    Example(
        ROTATED,
        ROTATED,
        "trtsmith",
        SIZE | {"sampling_ratio": 2, "aligned": 1, "clockwise": 0, "degrees": 1},
        in_degrees,
        oracle(True, 2, False, np.pi / 180),
    ),
)

SHAPES = {"x": (2, 4, 9, 8), "rois": (6, 6)}
FIELDS = SIZE | {"sampling_ratio": 2, "aligned": 1, "clockwise": 0, "degrees": 0}

INCONSISTENT = (
    Inconsistent(ROTATED, SHAPES, {"rois": (6, 5)}, "rois[1] = 5, not 6", FIELDS),
    Inconsistent(ROTATED, SHAPES, {"x": (1, 1, 65536, 32768)}, "65536 x 32768 pixels", FIELDS),
    Inconsistent(ROTATED, SHAPES, {}, "sampling_ratio = 1025", FIELDS, {"sampling_ratio": 1025}),
)


HUGE = "its kernel is RoI align's, whose case of more than 2^31 elements stands for it: only the positions differ"
