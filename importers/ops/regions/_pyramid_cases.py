"""Makes test inputs of RoI align on several levels, and lists sizes at which networks use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Case
from trtsmith.importers.ops.regions._pyramid import padded
from trtsmith.importers.ops.regions._region_cases import corners, proposals, rotated
from trtsmith.importers.ops.regions._region_geometry import MAXIMUM

Sizes = Sequence[tuple[int, int]]

_SIZES = ((16, 20), (8, 10), (4, 5), (2, 3))
_STRIDES = (4.0, 8.0, 16.0, 32.0)
_DEFAULTS = {
    "output_height": 3,
    "output_width": 4,
    "sampling_ratio": 2,
    "aligned": 1,
    "finest_scale": 8,
    "roi_scale_factor": -1.0,
}

_DETECTOR: Sizes = ((200, 336), (100, 168), (50, 84), (25, 42))
"""Strides 4 to 32 of an 800x1344 image."""


def cases(turned: bool) -> tuple[Case, ...]:
    """Cases of plain or of rotated boxes. Both have the same names, but for what only one of them has."""
    own: dict[str, Any] = {"clockwise": 0} if turned else {"pooling": 0}

    def case(
        name: str,
        batch: int,
        rois: int,
        kind: str = "near",
        sizes: Sizes = _SIZES,
        strides: Sequence[float] = _STRIDES,
        **given: Any,
    ) -> Case:
        fields = _DEFAULTS | own | {"strides": padded(strides[: len(sizes)])} | given
        extent = (sizes[0][0] * strides[0], sizes[0][1] * strides[0])

        def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
            regions = (rotated if turned else corners)(rng, rois, batch, extent, kind)
            return {"rois": regions} | _levels(rng, batch, 4, sizes)

        return Case(name, fields, make)

    grown: dict[str, Any] = {"roi_scale_factor": 1.5}
    other: dict[str, Any] = {"clockwise": 1} if turned else {"pooling": MAXIMUM}
    return (
        case("one_of_each", 1, 1, sizes=((1, 1),), output_height=1, output_width=1, sampling_ratio=1),
        case("four_levels", 2, 30),
        case("four_levels_not_aligned", 2, 30, aligned=0),
        case("two_levels", 1, 9, sizes=_SIZES[:2]),
        case(
            "eight_levels",
            1,
            40,
            sizes=tuple((9 - i, 7 - i // 2) for i in range(8)),
            strides=(2.0,) * 8,
            finest_scale=1,
        ),
        case("grown", 2, 30, **grown),
        case("grown_not_aligned", 2, 30, aligned=0, **grown),
        case("factor_of_one", 2, 30, roi_scale_factor=1.0),
        case("other_choice", 2, 30, **other),
        case("other_choice_adaptive", 1, 20, sampling_ratio=0, **other),
        case("adaptive", 1, 20, sampling_ratio=0),
        case("adaptive_grown", 1, 20, sampling_ratio=-1, aligned=0, **grown),
        case("small_regions", 1, 12, "small"),
        case("small_regions_adaptive", 1, 12, "small", sampling_ratio=0),
        case("turned_regions", 1, 12, "turned"),
        case("turned_regions_not_aligned", 1, 12, "turned", aligned=0),
        case("far_outside", 2, 20, "far", **grown),
        case("nan_and_huge_regions", 2, 30, "strange", **grown),
        case("nan_and_huge_regions_adaptive", 2, 30, "strange", sampling_ratio=0),
        case("no_regions", 1, 0),
        case("no_batch", 0, 3),
        *benchmarks(turned),
    )


def _levels(rng: np.random.Generator, batch: int, channels: int, sizes: Sizes) -> dict[str, np.ndarray]:
    return {f"x{i}": rng.normal(size=(batch, channels, *size)) for i, size in enumerate(sizes)}


def benchmarks(turned: bool) -> tuple[Case, ...]:
    """A detector's boxes and masks on the four levels of an 800x1344 image."""
    own: dict[str, Any] = {"clockwise": 0} if turned else {"pooling": 0}

    def case(name: str, rois: int, bins: int, batch: int = 1) -> Case:
        size = {"output_height": bins, "output_width": bins, "finest_scale": 56}
        fields = _DEFAULTS | own | size | {"strides": padded(_STRIDES)}

        def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
            regions = proposals(rng, rois, (800, 1344), batch)
            if turned:
                extent = regions[:, 3:5] - regions[:, 1:3]
                angle = rng.uniform(-np.pi / 2, np.pi / 2, (rois, 1))
                regions = np.concatenate([regions[:, :1], regions[:, 1:3] + extent / 2, extent, angle], 1)
            return {"rois": regions} | _levels(rng, batch, 256, _DETECTOR)

        return Case(name, fields, make, large=True)

    return (case("boxes_7x7", 1000, 7), case("masks_14x14", 100, 14), case("boxes_7x7_batch_4", 4000, 7, 4))
