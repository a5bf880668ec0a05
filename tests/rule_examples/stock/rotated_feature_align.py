"""Models that the rule stock-rotated-feature-align takes, with mmcv's formula point by point as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(6)
_BOXES = np.concatenate(
    [
        _RNG.uniform(-4, 16, (2, 4, 5, 2)),
        _RNG.uniform(0.5, 9, (2, 4, 5, 2)),
        _RNG.uniform(-2, 2, (2, 4, 5, 1)),
    ],
    -1,
).astype(np.float32)


def _bilinear(plane: np.ndarray, y: float, x: float) -> np.ndarray:
    """plane [C, H, W] at a point in pixels."""
    height, width = plane.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(plane.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = plane[:, top, left] * (1 - (x - left)) + plane[:, top, right] * (x - left)
    lower = plane[:, bottom, left] * (1 - (x - left)) + plane[:, bottom, right] * (x - left)
    found: np.ndarray = upper * (1 - (y - top)) + lower * (y - top)
    return found


def _oracle(scale: float, points: int) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        x, boxes = inputs["x"].astype(np.float64), inputs["r"].astype(np.float64)
        result = x.copy()
        for n, h, w in np.ndindex(*boxes.shape[:3]):
            cy, cx, width, height = boxes[n, h, w, :4] * scale
            turn = np.array([[np.cos(a := boxes[n, h, w, 4]), -np.sin(a)], [np.sin(a), np.cos(a)]])
            offsets = [(0, 0), (1, 1), (-1, 1), (-1, -1), (1, -1)][:points]
            for right, down in offsets:
                dx, dy = turn @ np.array([right * width / 2, down * height / 2])
                result[n, :, h, w] += _bilinear(x[n], cy + dy, cx + dx)
        return {"y": result.astype(inputs["x"].dtype)}

    return expected


_EXAMPLES = (
    Example(
        "one point, an old opset, an unknown batch",
        """<ir_version: 8, opset_import: ["" : 11, "mmcv" : 1]>
        g (float[N, 3, 4, 5] x, float[N, 4, 5, 5] r) => (float[N, 3, 4, 5] y) {
            y = mmcv.MMCVRotatedFeatureAlign <spatial_scale = 0.5, points = 1> (x, r)
        }""",
        feeds={"x": _RNG.standard_normal((2, 3, 4, 5)).astype(np.float32), "r": _BOXES},
        rtol=1e-4,
        atol=1e-4,
        expected=_oracle(0.5, 1),
    ),
    Example(
        "five points",
        """<ir_version: 8, opset_import: ["" : 17, "mmcv" : 1]>
        g (float[2, 3, 4, 5] x, float[2, 4, 5, 5] r) => (float[2, 3, 4, 5] y) {
            y = mmcv.MMCVRotatedFeatureAlign <spatial_scale = 0.25, points = 5> (x, r)
        }""",
        feeds={"r": _BOXES},
        rtol=1e-4,
        atol=1e-4,
        expected=_oracle(0.25, 5),
    ),
    Example(
        "images one pixel high, in float16",
        """<ir_version: 8, opset_import: ["" : 20, "trt.plugins" : 1]>
        g (float16[2, 3, 1, 5] x, float[2, 1, 5, 5] r) => (float16[2, 3, 1, 5] y) {
            y = trt.plugins.MMCVRotatedFeatureAlign <spatial_scale = 0.25, points = 5> (x, r)
        }""",
        feeds={"r": _BOXES[:, :1].copy()},
        rtol=5e-3,
        atol=2e-2,
        expected=_oracle(0.25, 5),
    ),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "stock-rotated-feature-align": _EXAMPLES,
}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-rotated-feature-align": (
        """<ir_version: 8, opset_import: ["" : 17, "mmcv" : 1]>
        g (float[2, 3, 4, 5] x, float[2, 4, 5, 5] r) => (float[2, 3, 4, 5] y) {
            y = mmcv.MMCVRotatedFeatureAlign <spatial_scale = 0.25, points = 4> (x, r)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "mmcv" : 1]>
        g (float[2, 3, H, 5] x, float[2, H, 5, 5] r) => (float[2, 3, H, 5] y) {
            y = mmcv.MMCVRotatedFeatureAlign <spatial_scale = 0.25> (x, r)
        }""",
    ),
}
