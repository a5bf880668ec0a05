"""Models that the rule stock-rotate takes, with BEVFormer_tensorrt's formula in float64 as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import sampled

_RNG = np.random.default_rng(4)


def _oracle(mode: str) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        image = inputs["x"]
        height, width = image.shape[1:]
        angle = -float(inputs["a"].reshape(-1)[0]) * np.pi / 180
        cx, cy = (float(c) - n / 2 for c, n in zip(inputs["c"].reshape(-1), (width, height), strict=True))
        cos, sin = np.cos(angle), np.sin(angle)
        x, y = np.arange(width) + 0.5 - width / 2, np.arange(height)[:, None] + 0.5 - height / 2
        grid = np.stack(
            [
                (cos * x + sin * y - cx * cos - cy * sin + cx) / (width / 2),
                (-sin * x + cos * y + cx * sin - cy * cos + cy) / (height / 2),
            ],
            -1,
        )
        return {"y": sampled(image[None], grid[None], mode)[0].astype(image.dtype)}

    return expected


def _example(name: str, call: str, mode: str, opset: int, kind: str, size: str, angle: str) -> Example:
    dtype = np.float16 if kind == "float16" else np.float32
    shape = {"[2, 5, 7]": (2, 5, 7), "[C, H, W]": (3, 6, 4)}[size]
    return Example(
        name,
        f"""<ir_version: 8, opset_import: ["" : {opset}, "trt.plugins" : 1, "custom_op" : 1]>
        g ({kind}{size} x, {kind}{angle} a, {kind}[2] c) => ({kind}{size} y) {{ y = {call} (x, a, c) }}""",
        feeds={
            "x": _RNG.standard_normal(shape).astype(dtype),
            "a": np.full((1,) if angle == "[1]" else (), 33.5, dtype),
            "c": np.array([2.25, 3.5], dtype),
        },
        rtol=2e-3,
        atol=5e-3 if kind == "float16" else 1e-4,
        expected=_oracle(mode),
    )


_EXAMPLES = (
    _example(
        "bilinear, an old opset, unknown sizes",
        "RotateTRT <interpolation = 0>",
        "bilinear",
        13,
        "float",
        "[C, H, W]",
        "[1]",
    ),
    _example("nearest", "RotateTRT2 <interpolation = 1>", "nearest", 17, "float", "[2, 5, 7]", ""),
    _example(
        "float16",
        "trt.plugins.RotateTRT2 <interpolation = 0>",
        "bilinear",
        21,
        "float16",
        "[2, 5, 7]",
        "[1]",
    ),
    _example(
        "VAD's name",
        "custom_op.RotatePlugin <interpolation = 0>",
        "bilinear",
        16,
        "float",
        "[2, 5, 7]",
        "[1]",
    ),
)

EXAMPLES = {"stock-rotate": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-rotate": (
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float[2, 5, 7] x, float[1] a, float[2] c) => (float[2, 5, 7] y) {
            y = trt.plugins.RotateTRT <interpolation = 2> (x, a, c)
        }""",
    ),
}
