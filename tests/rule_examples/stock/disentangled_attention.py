"""Models that the rule stock-disentangled-attention takes, with the kernel's loop, element by element, as the oracle."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log

import numpy as np

from tests.rule_examples.example import Arrays, Example

_RNG = np.random.default_rng(9)


def _position(distance: int, span: int, last: int) -> int:
    middle = span // 2
    if -middle <= distance <= middle:
        bucket = distance
    else:
        factor = (middle - 1) / (log(last - 1) - log(middle)) * (1 - 1e-7)
        bucket = ceil((log(abs(distance)) - log(middle)) * factor) + middle
        bucket = -bucket if distance < 0 else bucket
    return min(max(0, bucket + span), 2 * span - 1)


def _oracle(span: int, factor: float) -> Callable[[Arrays], Arrays]:
    def expected(inputs: Arrays) -> Arrays:
        a, b, c = (inputs[name].astype(np.float64) for name in "abc")
        result = a.copy()
        for i, j, k in np.ndindex(*a.shape):
            place = _position(j - k, span, b.shape[-1])
            result[i, j, k] = (a[i, j, k] + b[i, j, place] + c[i, k, place]) * factor
        return {"y": result.astype(inputs["a"].dtype)}

    return expected


def _feeds(heads: int, length: int, last: int) -> dict[str, np.ndarray]:
    return {
        "a": _RNG.standard_normal((heads, length, length)).astype(np.float32),
        "b": _RNG.standard_normal((heads, length, last)).astype(np.float32),
        "c": _RNG.standard_normal((heads, length, last)).astype(np.float32),
    }


_EXAMPLES = (
    Example(
        "far beyond the tables, unknown sizes",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[B, S, S] a, float[B, S, 8] b, float[B, S, 8] c) => (float[B, S, S] y) {
            y = DisentangledAttention_TRT <span = 4, factor = 0.125, plugin_version = "1"> (a, b, c)
        }""",
        feeds=_feeds(2, 37, 8),
        expected=_oracle(4, 0.125),
    ),
    Example(
        "fixed sizes, an opset without GatherElements",
        """<ir_version: 6, opset_import: ["" : 10, "TRT" : 1]>
        g (float[2, 70, 70] a, float[2, 70, 64] b, float[2, 70, 64] c) => (float[2, 70, 70] y) {
            y = TRT.DisentangledAttention_TRT <span = 32, factor = 0.1> (a, b, c)
        }""",
        expected=_oracle(32, 0.1),
    ),
    Example(
        "a span that is odd, a larger table, float16",
        """<ir_version: 8, opset_import: ["" : 18, "trt.plugins" : 1]>
        g (float16[1, 20, 20] a, float16[1, 20, 20] b, float16[1, 20, 17] c) => (float16[1, 20, 20] y) {
            y = trt.plugins.DisentangledAttention_TRT <span = 7, factor = 0.5, plugin_version = "2"> (a, b, c)
        }""",
        rtol=4e-3,
        atol=4e-3,
        expected=_oracle(7, 0.5),
    ),
)

EXAMPLES = {"stock-disentangled-attention": _EXAMPLES}

REFUSED: dict[str, tuple[str, ...]] = {
    "stock-disentangled-attention": (
        """<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[2, 7, 7] a, float[2, 7, 6] b) => (float[2, 7, 7] y) {
            y = TRT.DisentangledAttention_TRT <span = 4, factor = 0.1> (a, b, b)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[2, 7, 7] a, float[2, 7, Z] b) => (float[2, 7, 7] y) {
            y = TRT.DisentangledAttention_TRT <span = 4, factor = 0.1> (a, b, b)
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "TRT" : 1]>
        g (float[2, 7, 7] a, float[2, 7, 8] b) => (float[2, 7, 7] y) {
            y = TRT.DisentangledAttention_TRT <span = 4> (a, b, b)
        }""",
    ),
}
