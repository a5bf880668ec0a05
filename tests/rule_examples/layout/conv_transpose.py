"""Models that the rule conv-transpose takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "strided and dilated",
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[2, 2, 4, 5] x, float[2, 3, 3, 2] k, float[3] b) => (float[2, 3, 10, 12] y) {
            y = ConvTranspose <strides = [2, 2], dilations = [2, 3], pads = [1, 0, 1, 1], output_padding = [1, 1]> (x, k, b)
        }""",
        rtol=1e-4,
        atol=1e-5,
    ),
    Example(
        "strided and dilated, constant weights of two groups",
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[1, 2, 6] x) => (float[1, 2, 12] y) <float[2, 1, 3] k = {1, -2, 3, 4, 5, -6}> {
            y = ConvTranspose <strides = [2], dilations = [2], group = 2, auto_pad = "SAME_UPPER"> (x, k)
        }""",
        rtol=1e-4,
        atol=1e-5,
    ),
    Example(
        "an input cut at run time",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 3, 6, 5] x, int64[1] n, float[3, 2, 3, 2] k, float[2] b) => (float[2, 2, 8, 9] y)
        <int64[1] from = {0}, int64[1] axis = {2}> {
            part = Slice (x, from, n, axis)
            y = ConvTranspose <strides = [2, 2], output_shape = [8, 9]> (part, k, b)
        }""",
        feeds={"n": np.array([4])},
        rtol=1e-4,
        atol=1e-5,
        builds=False,
        why="its size comes from an input, for which a build needs a profile",
    ),
)


EXAMPLES = {"conv-transpose": _EXAMPLES}
