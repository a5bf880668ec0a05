"""Deformable RoI pooling, as mmcv writes it."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._regions import Box, boxes, corner_box, maps, pooled
from tests.importers.foreign.model import Arrays, Example, Inconsistent

DEFORMABLE = "DeformableRegionPool"
BINS = (3, 2)
GAMMA = 0.25


def inputs(with_offset: bool) -> dict[str, np.ndarray | None]:
    offset = np.random.default_rng(5).normal(size=(6, 2, *BINS)).astype(np.float32)
    return {"x": maps(), "rois": boxes(), "offset": offset if with_offset else None}


def oracle(arrays: Arrays) -> np.ndarray:
    """Bin by bin, each of a region that is moved as a whole."""
    x, regions = arrays["x"].astype(np.float64), arrays["rois"].astype(np.float64)
    offsets = arrays.get("offset")
    output = np.zeros((len(regions), x.shape[1], *BINS))
    for k, region in enumerate(regions):
        box = corner_box(region[1:], 0.5, True)
        for i, j in np.ndindex(*BINS):
            right, down = (0.0, 0.0) if offsets is None else GAMMA * offsets[k, :, i, j].astype(np.float64)
            moved = Box(box.left + right * box.width, box.top + down * box.height, box.width, box.height)
            output[k, :, i, j] = pooled(x[int(region[0])], moved, BINS, 2)[:, i, j]
    return output


ATTRIBUTES = {
    "pooled_height": BINS[0],
    "pooled_width": BINS[1],
    "spatial_scale": 0.5,
    "sampling_ratio": 2.0,
    "gamma": GAMMA,
}
FIELDS = {
    "output_height": BINS[0],
    "output_width": BINS[1],
    "spatial_scale": 0.5,
    "sampling_ratio": 2,
    "gamma": GAMMA,
}

EXAMPLES = (
    Example(DEFORMABLE, "MMCVDeformRoIPool", "mmcv", ATTRIBUTES, lambda: inputs(True), oracle),
    Example(
        DEFORMABLE, "MMCVDeformRoIPool", "mmcv", ATTRIBUTES, lambda: inputs(False), oracle, note="no_offset"
    ),
    Example(DEFORMABLE, DEFORMABLE, "trtsmith", FIELDS, lambda: inputs(True), oracle),
)

SHAPES = {"x": (2, 4, 9, 8), "rois": (6, 5), "offset": (6, 2, *BINS)}

INCONSISTENT = (
    Inconsistent(DEFORMABLE, SHAPES, {"rois": (6, 4)}, "rois[1] = 4, not 5", FIELDS),
    Inconsistent(
        DEFORMABLE, SHAPES, {"offset": (5, 2, *BINS)}, "offset is [5, 2, 3, 2], not [6, 2, 3, 2]", FIELDS
    ),
    Inconsistent(DEFORMABLE, SHAPES, {"x": (1, 6, 65536, 32768)}, "65536 x 32768 pixels", FIELDS),
    Inconsistent(DEFORMABLE, SHAPES, {}, "sampling_ratio = 1025", FIELDS, {"sampling_ratio": 1025}),
)


HUGE = "its kernel is RoI align's, whose case of more than 2^31 elements stands for it: only the positions differ"
