"""Models that the rule max-unpool takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "after MaxPool",
        """<ir_version: 8, opset_import: ["" : 12]>
        g (float[2, 3, 8, 6] x) => (float[2, 3, 8, 6] z) {
            y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
            z = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (y, i)
        }""",
    ),
    Example(
        "output_shape of the pooled input",
        """<ir_version: 8, opset_import: ["" : 12]>
        g (float[2, 3, 9, 7] x) => (float[2, 3, 9, 7] z) {
            y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
            c = Constant <value = int64[4] {2, 3, 9, 7}> ()
            z = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (y, i, c)
        }""",
    ),
    Example(
        "output_shape of its own",
        """<ir_version: 8, opset_import: ["" : 12]>
        g (float[1, 2, 2, 3] y, int64[1, 2, 2, 3] i) => (float[1, 2, 5, 8] z) {
            c = Constant <value = int64[4] {1, 2, 5, 8}> ()
            z = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (y, i, c)
        }""",
        reference=True,
        feeds={"i": np.array([[[[1, 9, 4], [12, 20, 23]], [[24, 33, 29], [37, 38, 47]]]])},
    ),
    Example(
        "1-D, opset 9",
        """<ir_version: 8, opset_import: ["" : 9]>
        g (float[1, 2, 3] y, int64[1, 2, 3] i) => (float[1, 2, 5] z) {
            z = MaxUnpool <kernel_shape = [3], strides = [2], pads = [1, 1]> (y, i)
        }""",
        feeds={"i": np.array([[[0, 3, 4], [6, 7, 9]]])},
    ),
)


EXAMPLES = {"max-unpool": _EXAMPLES}
