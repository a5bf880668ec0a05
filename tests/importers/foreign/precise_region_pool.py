"""Precise RoI pooling, as mmcv writes it. The oracle samples the middle of every rectangle in which the map is bilinear."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tests.importers.foreign._regions import boxes, maps
from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers
from tests.importers.oracles import tent
from trtsmith.importers.ops.regions.precise_region_pool import PRECISE_REGION_POOL

POOL = "PreciseRegionPool"
BINS = (3, 2)


def inputs() -> dict[str, np.ndarray | None]:
    return {"x": maps(), "rois": boxes()}


def breaks(low: float, high: float) -> list[float]:
    inner = [float(n) for n in range(int(np.ceil(low)), int(np.floor(high)) + 1)]
    return sorted({low, high, *inner})


def oracle(arrays: Arrays) -> np.ndarray:
    x, regions = arrays["x"].astype(np.float64), arrays["rois"].astype(np.float64)
    output = np.zeros((len(regions), x.shape[1], *BINS))
    for k, (image, *box) in enumerate(regions):
        left, top, right, bottom = (number * 0.5 for number in box)
        size = (bottom - top) / BINS[0], (right - left) / BINS[1]
        for i, j in np.ndindex(*BINS) if min(size) > 0 else ():
            ends = [
                (at + n * step, at + (n + 1) * step)
                for at, n, step in ((top, i, size[0]), (left, j, size[1]))
            ]
            total = np.zeros(x.shape[1])
            for y0, y1 in pairwise(breaks(*ends[0])):
                for x0, x1 in pairwise(breaks(*ends[1])):
                    down = tent(np.array((y0 + y1) / 2), x.shape[2])
                    across = tent(np.array((x0 + x1) / 2), x.shape[3])
                    total += (y1 - y0) * (x1 - x0) * np.einsum("chw,h,w->c", x[int(image)], down, across)
            output[k, :, i, j] = total / (size[0] * size[1])
    return output


NODE = {"pooled_height": BINS[0], "pooled_width": BINS[1], "spatial_scale": 0.5}
FIELDS = {"output_height": BINS[0], "output_width": BINS[1], "spatial_scale": 0.5}

EXAMPLES = (
    Example(POOL, "PrRoIPool", "mmcv", NODE, inputs, oracle),
    Example(POOL, POOL, "trtsmith", FIELDS, inputs, oracle),
)

SHAPES = {"x": (2, 4, 9, 8), "rois": (6, 5)}
INCONSISTENT = (
    Inconsistent(POOL, SHAPES, {"rois": (6, 4)}, "rois[1] = 4, not 5", FIELDS),
    Inconsistent(POOL, SHAPES, {"x": (1, 1, 65536, 32768)}, "65536 x 32768 pixels", FIELDS),
)


def huge(side: int, device: str) -> Huge:
    """Two channels and a bin: at 32800, x has 2.15e9 elements (4.3 GB), and regions lie in both far corners."""
    import torch

    x = torch.randn(1, 2, side, side, device=device, dtype=torch.float16)
    # Multiples of 32, which float16 has up to 65,504.
    near = np.array([0.0, 0.0, 0.0, 32.0, 64.0])
    far = near + np.array([0, side - 96, side - 96, side - 96, side - 96])
    rois = torch.tensor(np.stack([near, far]), device=device, dtype=torch.float16)
    fields = {"output_height": 2, "output_width": 1, "spatial_scale": 1.0}

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Of the far corner one more pixel: those before a region that begins at a whole number have a share there."""
        results = []
        for place, cut, first, found in (
            ("near corner", slice(0, 96), 0, outputs[0][0]),
            ("far corner", slice(side - 97, side), 1, outputs[0][1]),
        ):
            part = {"x": numbers(x[:, :, cut, cut]), "rois": near[None] + np.array([0, *[first] * 4])}
            results.append((place, numbers(found), PRECISE_REGION_POOL.reference(fields, part)["output"][0]))
        return results

    return Huge(fields, {"x": x, "rois": rois}, check)


HUGE = HugeCase(huge, size=32_800, small=200)
