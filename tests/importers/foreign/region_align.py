"""RoI align, as other tools write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.foreign._pyramid_plugin import PYRAMIDS
from tests.importers.foreign._regions import (
    Pool,
    average,
    boxes,
    corner_box,
    largest_corner,
    largest_sample,
    maps,
    pooled,
)
from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from trtsmith.importers.ops.regions.region_align import REGION_ALIGN

ALIGN = "RegionAlign"
BINS = (3, 2)


def oracle(aligned: bool, ratio: int, pool: Pool = average) -> Callable[[Arrays], np.ndarray]:
    """Of x and of regions with or without their images, as they are in the node."""

    def compute(inputs: Arrays) -> np.ndarray:
        x, regions = (inputs[name].astype(np.float64) for name in list(inputs)[:2])
        images = inputs.get("batch_indices", regions[:, 0])
        found = [
            pooled(x[int(image)], corner_box(region[-4:], 0.5, aligned), BINS, ratio, pool)
            for image, region in zip(images, regions, strict=True)
        ]
        return np.stack(found)

    return compute


def joined() -> dict[str, np.ndarray | None]:
    return {"x": maps(), "rois": boxes()}


def apart() -> dict[str, np.ndarray | None]:
    return {"x": maps(), "rois": boxes()[:, 1:], "batch_indices": boxes()[:, 0].astype(np.int32)}


def torchvision(ratio: int, aligned: bool) -> Callable[[], dict[str, np.ndarray | None]]:
    """As the exporter falls through: every argument an input."""
    arguments = {
        "spatial_scale": np.array(0.5),
        "pooled_height": np.array(BINS[0], np.int64),
        "pooled_width": np.array(BINS[1], np.int64),
        "sampling_ratio": np.array(ratio, np.int64),
        "aligned": np.array(aligned),
    }
    return lambda: {**joined(), **arguments}


ARGUMENTS = frozenset({"spatial_scale", "pooled_height", "pooled_width", "sampling_ratio", "aligned"})
SIZE = {"output_height": BINS[0], "output_width": BINS[1], "spatial_scale": 0.5}
PLUGIN = SIZE | {"sampling_ratio": 2}

EXAMPLES = (
    *PYRAMIDS,
    Example(
        ALIGN,
        "MMCVRoiAlign",
        "mmcv",
        SIZE | {"sampling_ratio": 2, "mode": "avg", "aligned": 1},
        joined,
        oracle(True, 2),
    ),
    Example(
        ALIGN,
        "MMCVRoiAlign",
        "mmdeploy",
        SIZE | {"sampling_ratio": 0, "mode": "max", "aligned": 0},
        joined,
        oracle(False, 0, largest_sample),
        note="max",
    ),
    Example(
        ALIGN, "roi_align", "torchvision", {}, torchvision(2, False), oracle(False, 2), constants=ARGUMENTS
    ),
    Example(
        ALIGN,
        "roi_align",
        "torchvision",
        {},
        torchvision(-1, True),
        oracle(True, -1),
        constants=ARGUMENTS,
        note="adaptive",
    ),
    Example(
        ALIGN,
        "ROIAlign_TRT",
        "trt",
        PLUGIN | {"mode": 1, "coordinate_transformation_mode": 1},
        apart,
        oracle(True, 2),
    ),
    Example(
        ALIGN,
        "ROIAlign_TRT",
        "trt",
        PLUGIN | {"mode": 0, "coordinate_transformation_mode": 0},
        apart,
        oracle(False, 2, largest_corner),
        note="max",
    ),
    Example(
        ALIGN,
        "ROIAlignX_TRT",
        "TRT",
        PLUGIN | {"sampling_ratio": 0, "mode": 1, "coordinate_transformation_mode": 1},
        apart,
        oracle(True, 0),
    ),
    Example(
        ALIGN,
        "RoIAlign",
        "org.pytorch._caffe2",
        {
            "order": "NCHW",
            "spatial_scale": 0.5,
            "pooled_h": BINS[0],
            "pooled_w": BINS[1],
            "sampling_ratio": 0,
            "aligned": 0,
        },
        joined,
        oracle(False, 0),
    ),
    Example(
        ALIGN,
        ALIGN,
        "trtsmith",
        SIZE | {"sampling_ratio": 3, "aligned": 1, "pooling": 1},
        joined,
        oracle(True, 3, largest_sample),
    ),
)

SHAPES = {"x": (2, 4, 9, 8), "rois": (6, 5)}
FIELDS = SIZE | {"sampling_ratio": 2, "aligned": 1, "pooling": 0}

INCONSISTENT = (
    Inconsistent(ALIGN, SHAPES, {"rois": (6, 4)}, "rois[1] = 4, not 5", FIELDS),
    Inconsistent(ALIGN, SHAPES, {"x": (1, 1, 65536, 32768)}, "65536 x 32768 pixels", FIELDS),
    Inconsistent(
        ALIGN, SHAPES, {}, "sampling_ratio = 1025, more than 1024", FIELDS, {"sampling_ratio": 1025}
    ),
)


def huge(side: int, device: str) -> Huge:
    """Two channels and 2 x 2 bins: at 32800, x has 2.15e9 elements (4.3 GB), and regions lie in both far corners."""
    import torch

    fields = {
        "output_height": 2,
        "output_width": 2,
        "spatial_scale": 1.0,
        "sampling_ratio": 2,
        "aligned": 1,
        "pooling": 0,
    }
    x = torch.randn(1, 2, side, side, device=device, dtype=torch.float16)
    crop = min(side, 128)
    # Multiples of 32, which float16 has up to 65,504.
    local = np.array([[0, 0, 0, 64, 64], [0, 32, 0, 96, 96], [0, 0, 64, 96, 96]], np.float64)
    far = side - crop
    shifted = local + np.array([0, far, far, far, far])
    rois = torch.tensor(np.concatenate([local, shifted]), device=device, dtype=torch.float16)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        results = []
        for place, part, found in (
            ("near corner", slice(0, crop), outputs[0][:3]),
            ("far corner", slice(far, side), outputs[0][3:]),
        ):
            near = {"x": numbers(x[:, :, part, part]), "rois": local}
            results.append((place, numbers(found), REGION_ALIGN.reference(fields, near)["output"]))
        return results

    return Huge(fields, {"x": x, "rois": rois}, check)


HUGE = HugeCase(huge, size=32800 + 96, small=160)
