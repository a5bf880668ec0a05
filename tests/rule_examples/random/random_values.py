"""Models that the rules random-values and random-broadcast take."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "bernoulli",
        """<ir_version: 8, opset_import: ["" : 15]>
        g (float[4, 5] x) => (float[4, 5] y, int32[4, 5] z) {
            y = Bernoulli <seed = 2.0> (x)
            z = Bernoulli <dtype = 6> (x)
        }""",
        feeds={"x": np.arange(20, dtype=np.float32).reshape(4, 5) % 2},
        reference=True,
    ),
    Example(
        "multinomial",
        """<ir_version: 8, opset_import: ["" : 15]>
        g (float[3, 4] x) => (int64[3, 6] y) { y = Multinomial <dtype = 7, sample_size = 6> (x) }""",
        feeds={
            "x": np.array([[0, -200, -200, -200], [-200, 0, -200, -200], [-200, -200, -200, 5]], np.float32)
        },
    ),
    Example(
        "type",
        """<ir_version: 8, opset_import: ["" : 15]>
        g (float[4, 5] x) => (float[4, 5] y) {
            noise = RandomNormalLike <dtype = 16, mean = 3.0, scale = 1e-30> (x)
            wide = Cast <to = 1> (noise)
            y = Mul (x, wide)
        }""",
        reference=True,
    ),
    Example(
        "shape",
        """<ir_version: 8, opset_import: ["" : 15]>
        g (float[4] x) => (float[4] y) {
            noise = RandomUniform <dtype = 16, shape = [4], low = 2.0, high = 2.0001> ()
            narrow = Cast <to = 1> (noise)
            y = Mul (x, narrow)
        }""",
        reference=True,
    ),
    Example(
        "scalars",
        """<ir_version: 8, opset_import: ["" : 15]>
        g (float x, float16[2] z) => (float y, float16[2] w) {
            noise = RandomUniformLike <low = 2.0, high = 2.0001> (x)
            y = Mul (x, noise)
            wide = RandomNormal <shape: ints = [], dtype = 11, mean = 3.0, scale = 1e-30> ()
            three = Cast <to = 10> (wide)
            w = Mul (z, three)
        }""",
        feeds={"x": np.array(1, np.float32), "z": np.array([1, 2], np.float16)},
        rtol=1e-3,
    ),
)
"""Probabilities of 0 and 1, a spread that rounding takes away: the values are certain, and can be compared."""

_BROADCAST = (
    Example(
        "a number for each row",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[N, 5] x) => (float[N, 5] y) {
            start = Constant <value_ints = [0, 0]> ()
            end = Constant <value_ints = [2147483647, 1]> ()
            column = Slice (x, start, end)
            noise = RandomNormalLike <mean = 2.0, scale = 1e-30> (column)
            y = Mul (x, noise)
        }""",
        feeds={"x": np.arange(20, dtype=np.float32).reshape(4, 5)},
    ),
    Example(
        "a number for each channel",
        """<ir_version: 8, opset_import: ["" : 15]>
        g (float[2, 3, 4, 5] x) => (float[2, 3, 4, 5] y) {
            noise = RandomUniform <shape = [1, 3, 1, 1], low = 2.0, high = 2.0001> ()
            y = Mul (x, noise)
        }""",
        rtol=1e-3,
    ),
)


EXAMPLES = {"random-values": _EXAMPLES, "random-broadcast": _BROADCAST}
