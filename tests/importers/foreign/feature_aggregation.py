"""Sparse4D's sums as exporters write them, with the public kernel's loops over points and pixels as the oracle."""

from __future__ import annotations

from math import floor

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

AGGREGATION = "FeatureAggregation"

SIZES = np.array([[[4, 6], [2, 3]], [[4, 6], [3, 2]], [[4, 6], [2, 3]]], np.int32)
"""Of three cameras, and two levels; the second camera's second map is of another shape."""

STARTS = np.array([[0, 24], [60, 84], [36, 30]], np.int32)
"""Of the same: in any order, with rows of no map behind the last."""


def bilinear(image: np.ndarray, y: float, x: float) -> np.ndarray:
    """image [h, w, ...], zeros outside."""
    total = np.zeros(image.shape[2:])
    for row, column in ((floor(y) + i, floor(x) + j) for i in (0, 1) for j in (0, 1)):
        if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
            total = total + (1 - abs(y - row)) * (1 - abs(x - column)) * image[row, column]
    return total


def _draw(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(41).uniform(low, high, shape).astype(np.float32)


def five() -> dict[str, np.ndarray | None]:
    """Places reach beyond the images, and to their borders, which do not count."""
    places = _draw(2, 5, 3, 3, 2, low=-0.3, high=1.3)
    places[:, 0, 0, 0] = (0, 0.5)
    return {
        "features": _draw(2, 100, 8),
        "sizes": SIZES,
        "starts": STARTS,
        "places": places,
        "weights": _draw(2, 5, 3, 3, 2, 4),
    }


def wide() -> dict[str, np.ndarray | None]:
    return {**five(), "sizes": SIZES.astype(np.int64), "starts": STARTS.astype(np.int64)}


def projected(last: bool = True) -> dict[str, np.ndarray | None]:
    """Around key points; two cameras look ahead, and one back. last: whether the weights come last."""
    cameras = np.stack([np.eye(4, dtype=np.float32)] * 3)
    cameras[:, :2, 2], cameras[1, 2, 2], cameras[:, 0, 0] = 2, -1, (1, 2, 3)
    made = {**five(), "places": _draw(2, 5, 3, 3) * 2}
    weights = made.pop("weights")
    views = {"cameras": np.stack([cameras] * 2), "image_sizes": np.full((2, 3, 2), 4, np.float32)}
    return {**made, **views, "weights": weights} if last else {**made, "weights": weights, **views}


def summed(arrays: Arrays) -> np.ndarray:
    features, weights, places = (
        arrays[name].astype(np.float64) for name in ("features", "weights", "places")
    )
    y = np.zeros((*weights.shape[:2], features.shape[2]))
    for b, a, p, camera in np.ndindex(*weights.shape[:4]):
        if "cameras" in arrays:
            u, v, z, _ = arrays["cameras"][b, camera].astype(np.float64) @ np.append(places[b, a, p], 1)
            across, down = (
                np.array([u / z, v / z]) / arrays["image_sizes"][b, camera] if z > 1e-5 else (-1, -1)
            )
        else:
            across, down = places[b, a, p, camera]
        if not (0 < across < 1 and 0 < down < 1):
            continue
        for level in range(2):
            h, w = arrays["sizes"][camera, level]
            start = arrays["starts"][camera, level]
            image = features[b, start : start + h * w].reshape(h, w, -1)
            share = np.repeat(weights[b, a, p, camera, level], features.shape[2] // weights.shape[5])
            y[b, a] += share * bilinear(image, down * h - 0.5, across * w - 0.5)
    return y


PLUGIN = "DeformableAttentionAggrPlugin"

EXAMPLES = (
    Example(AGGREGATION, PLUGIN, "custom", {}, five, summed),
    Example(AGGREGATION, PLUGIN, "custom", {}, projected, summed, note="key points"),
    Example(AGGREGATION, "MSDA", "nv", {}, wide, summed),
    Example(AGGREGATION, AGGREGATION, "trtsmith", {}, lambda: projected(last=False), summed),
)

SHAPES = {
    "features": (2, 100, 8),
    "sizes": (3, 2, 2),
    "starts": (3, 2),
    "places": (2, 5, 7, 3, 2),
    "weights": (2, 5, 7, 3, 2, 4),
}
VIEWS = {"places": (2, 5, 7, 3), "cameras": (2, 3, 4, 4)}

INCONSISTENT = tuple(
    Inconsistent(AGGREGATION, SHAPES, change, message)
    for change, message in (
        ({"features": (1, 100, 8)}, "features[0] = 1, not 2"),
        ({"sizes": (3, 3, 2)}, "sizes[1] = 3, not 2"),
        ({"places": (2, 5, 7, 3)}, "places has 4 dimensions, not 5"),
        ({"features": (2, 100, 6)}, "features[2] = 6, which 4 groups do not divide"),
        ({"features": (2, 2**31, 8)}, "features[1] = 2147483648, more than 2^31 - 1"),
        ({**VIEWS, "image_sizes": (2, 4, 2)}, "image_sizes[1] = 4, not 3"),
        (VIEWS, "cameras and image_sizes must both be there, or neither"),
    )
)


HUGE = (
    "rows of features are read by 64-bit addresses: multi-scale deformable attention's case stands for those"
)
