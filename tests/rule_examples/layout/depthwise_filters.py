"""Models that the rule depthwise-filters takes."""

from __future__ import annotations

from math import prod

import numpy as np

from tests.rule_examples.example import Example

_WHY = "its batch comes from an input, for which a build needs a profile"
_X = np.random.default_rng(3).normal(size=(2, 4, 9, 10)).astype(np.float32)


def _constant(name: str, *shape: int) -> str:
    """An initializer of numbers that are all different from their neighbours."""
    values = np.round(np.random.default_rng(7).normal(size=prod(shape)), 3)
    return f"float[{','.join(map(str, shape))}] {name} = {{{', '.join(map(str, values))}}}"


def _example(name: str, body: str, weights: list[str], opset: int = 17) -> Example:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[n, 4, h, w] x) => (float[n, c, p, q] y) <{", ".join(weights)}> {{ {body} }}"""
    return Example(name, text, feeds={"x": _X}, rtol=1e-4, atol=1e-4, builds=False, why=_WHY)


_EXAMPLES = (
    _example(
        "3x3 behind 5x5, with biases",
        """a = Conv <group = 4, pads = [2, 2, 2, 2]> (x, k5, b) r = Relu (a)
        z = Conv <group = 4, pads = [1, 1, 1, 1]> (r, k3, b) y = Relu (z)""",
        [_constant("k5", 4, 1, 5, 5), _constant("k3", 4, 1, 3, 3), _constant("b", 4)],
    ),
    _example(
        "strides, dilations, uneven pads, even filters",
        """a = Conv <group = 4, strides = [2, 1], dilations = [1, 2], pads = [2, 3, 1, 4]> (x, k43)
        b = Conv <group = 4, strides = [2, 1], dilations = [1, 2], pads = [1, 2, 1, 1]> (x, k32)
        c = Shape (b) s = Slice (c, two, four) n = Slice (c, zero, two) e = Concat <axis = 0> (n, s)
        p = Slice (a, zeros, e) y = Add (p, b)""",
        [
            _constant("k43", 4, 1, 4, 3),
            _constant("k32", 4, 1, 3, 2),
            "int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[4] zeros = {0, 0, 0, 0}",
        ],
    ),
    _example(
        "auto_pad, two outputs a channel, an old opset",
        """a = Conv <group = 4, auto_pad = "SAME_UPPER"> (x, k4)
        b = Conv <group = 4, auto_pad = "SAME_LOWER"> (x, k2)
        c = Conv <group = 4, auto_pad = "VALID", kernel_shape = [1, 3]> (x, k13)
        d = Pad <mode = "edge", pads = [0, 0, 0, 1, 0, 0, 0, 1]> (c)
        e = Add (a, b) y = Sub (e, d)""",
        [_constant("k4", 8, 1, 4, 4), _constant("k2", 8, 1, 2, 2), _constant("k13", 8, 1, 1, 3)],
        opset=9,
    ),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {"depthwise-filters": _EXAMPLES}
