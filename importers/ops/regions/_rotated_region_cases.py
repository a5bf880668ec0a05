"""Makes test inputs of RoI align of rotated boxes, and lists sizes at which networks use it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case
from trtsmith.importers.ops.regions._region_cases import proposals, rotated

_DEFAULTS = {
    "output_height": 7,
    "output_width": 7,
    "spatial_scale": 0.25,
    "sampling_ratio": 2,
    "aligned": 1,
    "clockwise": 0,
    "degrees": 0,
}


def _case(name: str, x: tuple[int, int, int, int], rois: int, kind: str = "near", **given: Any) -> Case:
    fields = _DEFAULTS | given
    turn = 360.0 if fields["degrees"] else 2 * np.pi

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        extent = (x[2] / fields["spatial_scale"], x[3] / fields["spatial_scale"])
        return {"x": rng.normal(size=x), "rois": rotated(rng, rois, x[0], extent, kind, turn)}

    return Case(name, fields, make)


def _network(name: str, x: tuple[int, int, int, int], rois: int, **given: Any) -> Case:
    """Proposals on an image of four times the map's size, turned by up to a quarter of a circle either way."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        boxes = proposals(rng, rois, (4 * x[2], 4 * x[3]), x[0])
        size = boxes[:, 3:5] - boxes[:, 1:3]
        angle = rng.uniform(-np.pi / 2, np.pi / 2, (rois, 1))
        regions = np.concatenate([boxes[:, :1], boxes[:, 1:3] + size / 2, size, angle], 1)
        return {"x": rng.normal(size=x), "rois": regions}

    return Case(name, _DEFAULTS | given, make, large=True)


BENCHMARKS = (
    _network("boxes_7x7", (1, 256, 200, 336), 1000),
    _network("boxes_7x7_coarse", (1, 256, 64, 64), 2000),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1), 1, output_height=1, output_width=1, sampling_ratio=1),
    _case("box_head", (2, 5, 13, 17), 9),
    _case("clockwise", (2, 5, 13, 17), 9, clockwise=1),
    _case("degrees", (1, 5, 13, 17), 9, degrees=1),
    _case("degrees_clockwise_not_aligned", (1, 5, 13, 17), 9, degrees=1, clockwise=1, aligned=0),
    _case("adaptive", (2, 3, 20, 24), 9, output_height=3, output_width=5, sampling_ratio=0),
    _case("adaptive_not_aligned", (1, 3, 20, 24), 9, aligned=0, sampling_ratio=-1),
    _case("one_row", (1, 3, 1, 15), 7),
    _case("one_column", (1, 3, 15, 1), 7, output_height=5, output_width=2),
    _case("small_regions", (1, 4, 9, 8), 12, "small", sampling_ratio=0),
    _case("small_regions_not_aligned", (1, 4, 9, 8), 12, "small", aligned=0),
    _case("turned_regions", (1, 4, 9, 8), 8, "turned"),
    _case("far_outside", (2, 3, 9, 8), 12, "far"),
    _case("far_outside_adaptive", (2, 3, 9, 8), 12, "far", sampling_ratio=0, output_height=2, output_width=2),
    _case("many_samples", (1, 3, 9, 8), 4, "far", sampling_ratio=19, output_height=2, output_width=3),
    _case("nan_and_huge_regions", (2, 4, 7, 6), 25, "strange"),
    _case("nan_and_huge_regions_adaptive", (2, 4, 7, 6), 25, "strange", sampling_ratio=0),
    _case("many_bins", (1, 3, 12, 11), 2, output_height=19, output_width=23),
    _case("no_regions", (1, 3, 9, 8), 0),
    _case("no_batch", (0, 3, 9, 8), 3),
    *BENCHMARKS,
)
