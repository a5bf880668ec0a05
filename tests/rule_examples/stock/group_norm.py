"""Models that the rule stock-group-norm takes, with PyTorch's as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rule_examples.example import Arrays, Example
from tests.rule_examples.stock.pytorch_oracle import by_torch


def _oracle(groups: int, epsilon: float, swish: bool = False) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        x, scale, shift = inputs["x"], inputs["g"].reshape(-1), inputs["b"].reshape(-1)
        result = by_torch("group_norm", x, weight=scale, bias=shift, num_groups=groups, eps=epsilon)
        active = result / (1 + np.exp(-result)) if swish else result
        return {"y": active.astype(x.dtype)}

    return expected


_RNG = np.random.default_rng(8)
_EXAMPLES = (
    Example(
        "TensorRT's, of unknown sizes, an old opset",
        """<ir_version: 6, opset_import: ["" : 9, "TRT" : 1]>
        g (float[N, 6, H, W] x, float[6] g, float[6] b) => (float[N, 6, H, W] y) {
            y = TRT.GroupNormalizationPlugin <eps = 0.01, num_groups = 3, plugin_version = "1"> (x, g, b)
        }""",
        feeds={"x": _RNG.standard_normal((2, 6, 3, 5)).astype(np.float32)},
        rtol=1e-4,
        atol=1e-5,
        expected=_oracle(3, 0.01),
    ),
    Example(
        "one group, three dimensions, no attributes",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[2, 4, 3] x, float[4, 1] g, float[4, 1] b) => (float[2, 4, 3] y) {
            y = GroupNormalizationPlugin (x, g, b)
        }""",
        rtol=1e-4,
        atol=1e-5,
        expected=_oracle(1, 1e-5),
    ),
    Example(
        "demo/Diffusion's with SiLU, in float16",
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float16[2, 64, 2, 3] x, float[64] g, float[64] b) => (float16[2, 64, 2, 3] y) {
            y = trt.plugins.GroupNorm <epsilon = 0.00001, bSwish = 1> (x, g, b)
        }""",
        rtol=4e-3,
        atol=4e-3,
        expected=_oracle(32, 1e-5, swish=True),
    ),
    Example(
        "amirstan's, of volumes",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[1, 4, 2, 3, 2] x, float[4] g, float[4] b) => (float[1, 4, 2, 3, 2] y) {
            y = GroupNormPluginDynamic <num_groups = 2> (x, g, b)
        }""",
        rtol=1e-4,
        atol=1e-5,
        expected=_oracle(2, 1e-5),
    ),
)

EXAMPLES = {"stock-group-norm": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-group-norm": (
        """<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[2, 7, 5] x, float[7] s) => (float[2, 7, 5] y) {
            y = TRT.GroupNormalizationPlugin <num_groups = 3> (x, s, s)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "trt.plugins" : 1]>
        g (float[2, 64, 5] x, float[64] s) => (float[2, 64, 5] y) { y = trt.plugins.GroupNorm <groups = 8> (x, s, s) }""",
    ),
}
