"""Makes test inputs of precise RoI pooling, lists sizes at which networks use it, and computes it in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Case, Fields, Huge, HugeCase
from trtsmith.importers.ops._huge import numbers
from trtsmith.importers.ops.regions._region_cases import corners, proposals


def _covered(first: float, last: float, bins: int, extent: int) -> np.ndarray:
    """[bins, extent]: the integral of each pixel's tent over each bin, exact: a tent is straight between whole numbers."""
    weights = np.zeros((bins, extent))
    for i in range(bins):
        ends = [first + (last - first) * part / bins for part in (i, i + 1)]
        inner = [n for n in range(-2, extent + 3) if ends[0] < n < ends[1]]
        breaks = np.unique(np.clip(np.array([*ends, *inner]), -2, extent + 2))
        middle, length = (breaks[1:] + breaks[:-1]) / 2, np.diff(breaks)
        tents = np.maximum(0, 1 - np.abs(middle[:, None] - np.arange(extent)))
        weights[i] = length @ tents
    return weights


def _touched(weights: np.ndarray) -> slice:
    """The pixels that have a weight in some bin."""
    found = np.flatnonzero(weights.any(axis=0))
    return slice(found[0], found[-1] + 1) if len(found) else slice(0)


def pool_precisely(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One region after the other."""
    x, rois = inputs["x"].astype(np.float64), inputs["rois"].astype(np.float64)
    height, width = fields["output_height"], fields["output_width"]
    output = np.zeros((len(rois), x.shape[1], height, width))
    for k, (image, *box) in enumerate(rois):
        left, top, right, bottom = (number * fields["spatial_scale"] for number in box)
        if not np.isfinite(box).all() or not -1 < image < len(x) or left >= right or top >= bottom:
            continue
        rows = _covered(top, bottom, height, x.shape[2])
        columns = _covered(left, right, width, x.shape[3])
        area = (bottom - top) * (right - left) / (height * width)
        down, across = _touched(rows), _touched(columns)
        feature = x[int(image)][:, down, across]
        output[k] = rows[:, down] @ feature @ columns[:, across].T / area
    return {"output": output}


def pool_fields(height: int, width: int, scale: float = 1.0) -> Fields:
    return {"output_height": height, "output_width": width, "spatial_scale": scale}


def _case(
    name: str,
    x: tuple[int, int, int, int],
    count: int,
    kind: str = "near",
    bins: tuple[int, int] = (3, 2),
    scale: float = 0.5,
    **marks: bool,
) -> Case:
    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        extent = (x[2] / scale, x[3] / scale)
        return {"x": rng.normal(size=x), "rois": corners(rng, count, x[0], extent, kind)}

    return Case(name, pool_fields(*bins, scale), make, **marks)


def _network(
    name: str, x: tuple[int, int, int, int], count: int, scale: float, bins: tuple[int, int] = (7, 7)
) -> Case:
    """Boxes as a detector proposes them, on a map of an image."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        image = (int(x[2] / scale), int(x[3] / scale))
        return {"x": rng.normal(size=x), "rois": proposals(rng, count, image, x[0])}

    return Case(name, pool_fields(*bins, scale), make, large=True)


BENCHMARKS = (
    # IoU-Net's head on the finest level of an 800x1344 image and on a coarse one; ATOM's and DiMP's, of one target.
    _network("boxes_7x7", (1, 256, 200, 336), 1000, 0.25),
    _network("boxes_7x7_coarse", (1, 256, 50, 84), 1000, 0.0625),
    _network("tracker_5x5", (1, 256, 36, 36), 10, 0.0625, (5, 5)),
)

CASES = (
    _case("one_of_each", (1, 1, 2, 2), 1, bins=(1, 1)),
    _case("boxes", (2, 5, 13, 17), 9),
    _case("many_bins", (2, 3, 20, 24), 5, bins=(9, 40)),
    _case("wide_map", (1, 3, 9, 90), 6, bins=(2, 5)),
    _case("bins_wider_than_a_warp", (1, 3, 40, 150), 5, bins=(2, 2), scale=1.0),
    _case("one_row", (1, 3, 1, 15), 5),
    _case("one_column", (1, 3, 15, 1), 5, bins=(5, 2)),
    _case("more_channels_than_a_block", (1, 70, 6, 5), 4),
    _case("small_regions", (1, 4, 9, 8), 12, "small"),
    _case("far_outside", (2, 3, 9, 8), 12, "far"),
    _case("strange_regions", (2, 4, 9, 8), 24, "strange"),
    _case("no_regions_of_a_size", (2, 4, 9, 8), 6, "turned"),
    _case("no_regions", (2, 4, 9, 8), 0),
    _case("no_channels", (2, 0, 9, 8), 4),
    _case("tiles", (2, 72, 50, 60), 40, bins=(9, 7), large=True, tiles=True),
    *BENCHMARKS,
)


def _huge(side: int, device: str) -> Huge:
    """Two channels and a bin: at 32800, x has 2.15e9 elements (4.3 GB), and regions lie in both far corners."""
    import torch

    x = torch.randn(1, 2, side, side, device=device, dtype=torch.float16)
    # Multiples of 32, which float16 has up to 65,504.
    near = np.array([0.0, 0.0, 0.0, 32.0, 64.0])
    far = near + np.array([0, side - 96, side - 96, side - 96, side - 96])
    rois = torch.tensor(np.stack([near, far]), device=device, dtype=torch.float16)
    fields = pool_fields(2, 1)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Of the far corner one more pixel: those before a region that begins at a whole number have a share there."""
        results = []
        for place, cut, first, found in (
            ("near corner", slice(0, 96), 0, outputs[0][0]),
            ("far corner", slice(side - 97, side), 1, outputs[0][1]),
        ):
            part = {"x": numbers(x[:, :, cut, cut]), "rois": near[None] + np.array([0, *[first] * 4])}
            results.append((place, numbers(found), pool_precisely(fields, part)["output"][0]))
        return results

    return Huge(fields, {"x": x, "rois": rois}, check)


HUGE = HugeCase(_huge, size=32_800, small=200)
