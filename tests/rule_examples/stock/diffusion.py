"""Models that the rule stock-diffusion takes, with the plugins' formulas in float64 as the oracle."""

from __future__ import annotations

from math import erf

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import by_torch

_RNG = np.random.default_rng(12)


def _normal(inputs: Arrays) -> Arrays:
    unit = by_torch("layer_norm", inputs["x"], normalized_shape=inputs["x"].shape[-1:])
    return {"y": (unit * inputs["g"] + inputs["b"]).astype(inputs["x"].dtype)}


def _plain_normal(inputs: Arrays) -> Arrays:
    return {"y": by_torch("layer_norm", inputs["x"], normalized_shape=(6,)).astype(inputs["x"].dtype)}


def _gated(inputs: Arrays) -> Arrays:
    left, right = np.array_split(inputs["x"].astype(np.float64), 2, -1)
    gate = [(erf(value / 1.4140625) + 1) * value * 0.5 for value in right.reshape(-1)]
    return {"y": (left * np.reshape(gate, right.shape)).astype(inputs["x"].dtype)}


def _spatial(inputs: Arrays) -> Arrays:
    sums = (inputs["x"] + inputs["b"]) + inputs["r"]
    images, channels = sums.shape[0], sums.shape[2]
    return {"y": sums.transpose(0, 2, 1).reshape(images, channels, *inputs["s"].shape[2:])}


def _random(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(np.float32)


_EXAMPLES = (
    Example(
        "layers, an old opset, unknown sizes",
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[N, S, 6] x, float[6] g, float[6] b) => (float[N, S, 6] y) {
            y = LayerNorm <epsilon = 0.00001, axis = -1> (x, g, b)
        }""",
        feeds={"x": _random(2, 3, 6)},
        rtol=1e-4,
        atol=1e-5,
        expected=_normal,
    ),
    Example(
        "layers in float16 with weights in float32",
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float16[2, 3, 6] x, float[6] g, float[6] b) => (float16[2, 3, 6] y) {
            y = trt.plugins.LayerNorm <axis = 2> (x, g, b)
        }""",
        rtol=4e-3,
        atol=4e-3,
        expected=_normal,
    ),
    *(
        Example(
            f"layers without a scale, {kind}",
            f"""<ir_version: 8, opset_import: ["" : {opset}]>
            g ({kind}[N, S, 6] x) => ({kind}[N, S, 6] y) {{ y = LayerNorm {epsilon} (x) }}""",
            feeds={"x": _random(2, 3, 6).astype(np.float16 if kind == "float16" else np.float32)},
            rtol=4e-3 if kind == "float16" else 1e-4,
            atol=4e-3 if kind == "float16" else 1e-5,
            expected=_plain_normal,
        )
        for kind, opset, epsilon in (("float", 13, "<epsilon = [0.00001]>"), ("float16", 17, ""))
    ),
    Example(
        "gates",
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[N, 3, 8] x) => (float[N, 3, 4] y) { y = SplitGeLU (x) }""",
        feeds={"x": _random(2, 3, 8)},
        expected=_gated,
    ),
    Example(
        "gates in float16",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float16[2, 3, 2] x) => (float16[2, 3, 1] y) { y = SplitGeLU <plugin_version = "1"> (x) }""",
        rtol=2e-3,
        atol=1e-3,
        expected=_gated,
    ),
    Example(
        "images of sequences",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[N, L, 5] x, float[1, 5] b, float[N, L, 5] r, float[N, 5, H, W] s) => (float[N, 5, H, W] y) {
            y = SeqLen2Spatial (x, b, r, s)
        }""",
        feeds={"x": _random(2, 6, 5), "r": _random(2, 6, 5), "s": _random(2, 5, 3, 2)},
        expected=_spatial,
    ),
)

EXAMPLES = {"stock-diffusion": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-diffusion": (
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float[2, 3, 6] x, float[18] g) => (float[2, 3, 6] y) { y = trt.plugins.LayerNorm <axis = 1> (x, g, g) }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3, 6] x, float[6] g) => (float[2, 3, 6] y) { y = LayerNorm <epsilon = 0.00001> (x, g) }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 4] x) => (float[2, 2] y, float[2, 2] z) { y, z = SplitGeLU (x) }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[2, 4] x) => (int32[2, 2] y) { y = SplitGeLU (x) }""",
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float[2, 3, 7] x) => (float[2, 3, 3] y) { y = trt.plugins.SplitGeLU (x) }""",
    ),
}
