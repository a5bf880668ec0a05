"""Models that the rule stock-resizes takes, with PyTorch, or the kernel's index arithmetic in numpy, as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import by_torch

_RNG = np.random.default_rng(14)


def _nearest(height: float, width: float = 0) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        x = inputs["x"]
        rows, columns = (
            [int(np.float32(place) / np.float32(scale)) for place in range(int(size * scale))]
            for size, scale in zip(x.shape[2:], (height, width or height), strict=True)
        )
        return {"y": x[:, :, rows][..., columns]}

    return expected


def _bicubic(height: int, width: int, aligned: bool) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        options = {"scale_factor": (height, width), "mode": "bicubic", "align_corners": aligned}
        return {"y": by_torch("interpolate", inputs["x"], **options).astype(inputs["x"].dtype)}

    return expected


_EXAMPLES = (
    Example(
        "nearest, an opset whose Resize has no modes, unknown sizes",
        """<ir_version: 6, opset_import: ["" : 10]>
        g (float[N, 2, H, W] x) => (float[N, 2, h, w] y) { y = ResizeNearest_TRT <scale = 2.0> (x) }""",
        feeds={"x": _RNG.standard_normal((2, 2, 3, 4)).astype(np.float32)},
        expected=_nearest(2),
    ),
    Example(
        "nearest, a fraction, float16",
        """<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float16[1, 2, 3, 5] x) => (float16[1, 2, 5, 8] y) { y = TRT.ResizeNearest_TRT <scale = [1.7]> (x) }""",
        expected=_nearest(1.7),
    ),
    Example(
        "Caffe2's, rows and columns unlike",
        """<ir_version: 8, opset_import: ["" : 12, "org.pytorch._caffe2" : 1]>
        g (float[N, 2, 3, 5] x) => (float[N, 2, 6, 7] y) {
            y = org.pytorch._caffe2.ResizeNearest <height_scale = 2.0, width_scale = 1.5> (x)
        }""",
        feeds={"x": _RNG.standard_normal((2, 2, 3, 5)).astype(np.float32)},
        expected=_nearest(2, 1.5),
    ),
    Example(
        "bicubic, aligned",
        """<ir_version: 8, opset_import: ["" : 11, "mmdeploy" : 1]>
        g (float[N, 2, 3, 5] x) => (float[N, 2, 6, 15] y) {
            y = mmdeploy.TRTBicubicInterpolate <scale_factor = [2.0, 3.0], align_corners = 1> (x)
        }""",
        feeds={"x": _RNG.standard_normal((2, 2, 3, 5)).astype(np.float32)},
        rtol=1e-4,
        atol=1e-5,
        expected=_bicubic(2, 3, aligned=True),
    ),
    Example(
        "bicubic",
        """<ir_version: 8, opset_import: ["" : 18, "mmdeploy" : 1]>
        g (float[1, 2, 3, 1] x) => (float[1, 2, 12, 1] y) {
            y = mmdeploy.TRTBicubicInterpolate <scale_factor = [4.0, 1.0], align_corners = 0> (x)
        }""",
        rtol=1e-4,
        atol=1e-5,
        expected=_bicubic(4, 1, aligned=False),
    ),
)

EXAMPLES = {"stock-resizes": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-resizes": (
        """<ir_version: 8, opset_import: ["" : 17, "mmdeploy" : 1]>
        g (float[1, 2, 4, 4] x) => (float[1, 2, 6, 8] y) {
            y = mmdeploy.TRTBicubicInterpolate <scale_factor = [1.5, 2.0], align_corners = 0> (x)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "mmdeploy" : 1]>
        g (float[1, 2, 4, 1] x) => (float[1, 2, 8, 1] y) {
            y = mmdeploy.TRTBicubicInterpolate <scale_factor = [2.0, 1.0]> (x)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[1, 2, 4, 1] x) => (float[1, 2, 8, 2] y) { y = TRT.ResizeNearest_TRT <scale = -2.0> (x) }""",
    ),
}
