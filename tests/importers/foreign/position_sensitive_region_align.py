"""Position-sensitive RoI align, as torchvision's exporter leaves it."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._regions import boxes, corner_box, maps, pooled
from tests.importers.foreign.model import Arrays, Example, Inconsistent

POSITION = "PositionSensitiveRegionAlign"
BINS = (3, 2)


def inputs() -> dict[str, np.ndarray | None]:
    return {"x": maps((2, 12, 9, 8)), "rois": boxes()}


def torchvision() -> dict[str, np.ndarray | None]:
    numbers = {"pooled_height": BINS[0], "pooled_width": BINS[1], "sampling_ratio": -1}
    return {
        **inputs(),
        "spatial_scale": np.array(0.5),
        **{name: np.array(value, np.int64) for name, value in numbers.items()},
    }


def oracle(arrays: Arrays) -> np.ndarray:
    """Of every channel all bins, and of those each from a channel of its own."""
    x, regions = arrays["x"].astype(np.float64), arrays["rois"].astype(np.float64)
    found = []
    for region in regions:
        every = pooled(x[int(region[0])], corner_box(region[1:], 0.5, True), BINS, 0)
        own = np.zeros((2, *BINS))
        for c, i, j in np.ndindex(own.shape):
            own[c, i, j] = every[(c * BINS[0] + i) * BINS[1] + j, i, j]
        found.append(own)
    return np.stack(found)


def both(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """And from which channel of the map each of them is."""
    output = oracle(arrays)
    channels = np.arange(output[0].size).reshape(output.shape[1:])
    return output, np.broadcast_to(channels, output.shape)


ARGUMENTS = frozenset({"spatial_scale", "pooled_height", "pooled_width", "sampling_ratio"})
FIELDS = {"output_height": BINS[0], "output_width": BINS[1], "spatial_scale": 0.5, "sampling_ratio": 0}

EXAMPLES = (
    Example(
        POSITION, "ps_roi_align", "torchvision", {}, torchvision, both, constants=ARGUMENTS, types=("T", "S")
    ),
    Example(POSITION, POSITION, "trtsmith", FIELDS, inputs, oracle),
)

SHAPES = {"x": (2, 12, 9, 8), "rois": (6, 5)}

INCONSISTENT = (
    Inconsistent(POSITION, SHAPES, {"rois": (6, 4)}, "rois[1] = 4, not 5", FIELDS),
    Inconsistent(POSITION, SHAPES, {"x": (2, 13, 9, 8)}, "x[1] = 13, which 6 bins do not divide", FIELDS),
    Inconsistent(POSITION, SHAPES, {"x": (1, 6, 65536, 32768)}, "65536 x 32768 pixels", FIELDS),
    Inconsistent(POSITION, SHAPES, {}, "sampling_ratio = 1025", FIELDS, {"sampling_ratio": 1025}),
)


HUGE = "its kernel is RoI align's, whose case of more than 2^31 elements stands for it: only the plane read differs"
