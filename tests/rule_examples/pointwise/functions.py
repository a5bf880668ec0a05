"""Models that the rule functions takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "attention",
        """<ir_version: 10, opset_import: ["" : 23]>
        g (float[1, 2, 4, 8] q, float[1, 2, 6, 8] k, float[1, 2, 6, 8] v) => (float[1, 2, 4, 8] y) {
            y = Attention <is_causal = 1> (q, k, v)
        }""",
        scale=0.4,
    ),
    Example(
        "loss",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 5, 4] scores, int64[3, 4] labels, float[5] weights) => (float loss, float[3, 5, 4] log_prob) {
            loss, log_prob = SoftmaxCrossEntropyLoss <reduction = "mean", ignore_index = 1> (scores, labels, weights)
        }""",
        feeds={"labels": np.arange(12).reshape(3, 4) % 5},
    ),
    Example(
        "grid",
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[2, 2, 3] theta) => (float[2, 4, 5, 2] grid) {
            size = Constant <value = int64[4] {2, 3, 4, 5}> ()
            grid = AffineGrid <align_corners = 1> (theta, size)
        }""",
    ),
    Example(
        "one matrix",
        """<ir_version: 9, opset_import: ["" : 20]>
        g (float[1, 2, 3] theta) => (float[1, 4, 5, 2] grid) {
            size = Constant <value = int64[4] {1, 3, 4, 5}> ()
            grid = AffineGrid (theta, size)
        }""",
    ),
    Example(
        "crop",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[5, 6, 3] x) => (float[3, 8, 3] y) {
            size = Constant <value = int64[2] {3, 8}> ()
            y = CenterCropPad <axes = [0, 1]> (x, size)
        }""",
    ),
    Example(
        "half",
        """<ir_version: 10, opset_import: ["" : 28]>
        g (float16[3, 4] x) => (float16[3, 4] y) { y = Celu <alpha = 1.5> (x) }""",
        rtol=2e-3,
        reference=True,
    ),
)


EXAMPLES = {"functions": _EXAMPLES}
