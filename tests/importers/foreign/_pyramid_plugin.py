"""Regions on four maps, as in PyramidROIAlign_TRT; the oracle is its kernel, sample by sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example

_IMAGE = (64, 128)
_REGIONS = np.array(
    [
        [
            [8, 4, 20, 12],
            [16, 8, 56, 40],
            [0, 0, 128, 64],
            [100, 24, 64, 60],
            [12, 20, 12, 20],
            [-40, 8, 24, 200],
        ],
        [
            [0, 0, 0, 0],
            [120, 56, 128, 64],
            [32, 16, 96, 48],
            [8, 0, 14, 30],
            [64, 32, 72, 36],
            [128, 64, 160, 80],
        ],
    ],
    np.float32,
)
"""(x, y, x, y) in pixels, on all levels: the whole image, corners the other way round, without an extent, beyond it."""


def _inputs(absolute: int, swapped: int) -> Any:
    def make() -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(21)
        maps = {
            name: (rng.integers(-32, 33, (2, 3, 16 >> level, 32 >> level)) / 16).astype(np.float32)
            for level, name in enumerate(("finest", "second", "third", "coarsest"))
        }
        regions = _REGIONS if absolute else _REGIONS / np.float32([128, 64, 128, 64])
        return {"regions": regions[..., [1, 0, 3, 2]] if swapped else regions, **maps}

    return make


def _interpolated(feature: np.ndarray, y: float, x: float) -> np.ndarray:
    y, x = (min(max(place, 0.0), size - 1.0) for place, size in zip((y, x), feature.shape[1:], strict=True))
    top, left = int(y), int(x)
    rows = feature[:, [top, min(top + 1, feature.shape[1] - 1)]]
    corners = rows[:, :, [left, min(left + 1, feature.shape[2] - 1)]]
    return np.asarray(np.einsum("cij,i,j->c", corners, [1 - y + top, y - top], [1 - x + left, x - left]))


def _pooled(**changed: Any) -> Any:
    given = {"fpn_scale": 32, "pooled_size": 2, "roi_coords_transform": 2, "sampling_ratio": 0, **changed}
    if given.get("legacy"):
        given |= {
            "roi_coords_transform": -1,
            "sampling_ratio": 1,
            "roi_coords_absolute": 0,
            "roi_coords_swap": 1,
        }
    transform, bins = given["roi_coords_transform"], given["pooled_size"]

    def oracle(inputs: Arrays) -> np.ndarray:
        regions, *maps = (array.astype(np.float64) for array in inputs.values())
        result = np.zeros((*regions.shape[:2], 3, bins, bins))
        for n, r in np.ndindex(*regions.shape[:2]):
            box = regions[n, r]
            box = box[[1, 0, 3, 2]] if given.get("roi_coords_swap") else box
            size = np.array([128, 64, 128, 64]) if given.get("roi_coords_absolute", 1) else np.ones(4)
            share = np.clip(box, 0, size) / size
            low, high = np.minimum(share[:2], share[2:]), np.maximum(share[:2], share[2:])
            area = (high - low + (1 / np.array([128, 64]) if given.get("roi_coords_plusone") else 0)).prod()
            first = given["fpn_scale"] ** 2 / (64 * 128) / 4
            first = 224**2 * 2 / 1024**2 / 16 if given.get("legacy") else first
            level = sum(area > first * 4**step for step in range(3))
            feature = maps[level][n]
            pixels = np.array(feature.shape[:0:-1])
            if transform == -1:
                start, end = low * (pixels - 1), high * (pixels - 1)
                step = (end - start) / (bins - 1)
            else:
                start, end = (corner * pixels - (0.5 if transform == 2 else 0) for corner in (low, high))
                step = (end - start) / bins
            offset = 0.5 if transform > 0 else 0.0
            across, down = (
                given["sampling_ratio"] or max(1, int(np.ceil(length / bins))) for length in end - start
            )
            for i, j in np.ndindex(bins, bins):
                samples = [
                    _interpolated(
                        feature,
                        start[1] + step[1] * (i + (v + offset) / down),
                        start[0] + step[0] * (j + (u + offset) / across),
                    )
                    for v in range(down)
                    for u in range(across)
                ]
                result[n, r, :, i, j] = np.mean(samples, 0)
        return result

    return oracle


def _example(note: str, **changed: Any) -> Example:
    attributes = {"fpn_scale": 32, "pooled_size": 2, "image_size": list(_IMAGE), **changed}
    legacy = bool(changed.get("legacy"))
    inputs = _inputs(
        0 if legacy else changed.get("roi_coords_absolute", 1), legacy or changed.get("roi_coords_swap", 0)
    )
    return Example(
        "RegionAlign", "PyramidROIAlign_TRT", "TRT", attributes, inputs, _pooled(**changed), note=note
    )


PYRAMIDS = (
    _example(""),
    _example("shares_of_the_image", roi_coords_absolute=0, roi_coords_swap=1, sampling_ratio=2),
    _example(
        "maskrcnn_benchmark", roi_coords_transform=1, roi_coords_plusone=1, sampling_ratio=2, pooled_size=4
    ),
    _example("no_offsets", roi_coords_transform=0, sampling_ratio=2),
    _example("legacy", legacy=1, pooled_size=3),
)
