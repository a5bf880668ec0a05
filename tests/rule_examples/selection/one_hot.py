"""Models that the rules dynamic-one-hot and dynamic-hardmax take."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example


def _one_hot(
    name: str, ends: str, constants: str, body: str, indices: list[object], opset: int = 17
) -> Example:
    """Of indices i and a depth that is the first size of x."""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({ends.replace(">", ") => (")})
        <int64 zero = {{0}}, {constants}> {{ s = Shape (x) d = Gather (s, zero) {body} }}"""
    feeds = {"x": np.ones((5, 2), np.float32), "i": np.array(indices)}
    return Example(name, text, feeds=feeds)


_ONE_HOT = (
    _one_hot(
        "indices from the end, and beyond",
        "float[n, 2] x, int64[k] i > float[k, m] y",
        "float[2] v = {0.5, 2.0}",
        "y = OneHot (i, d, v)",
        [0, -1, 4, 5, -5, -6],
    ),
    _one_hot(
        "an axis in front, int64 values",
        "float[n, 2] x, int64[k, 3] i > int64[m, k, 3] y",
        "int64[2] v = {-3, 7}",
        "y = OneHot <axis = 0> (i, d, v)",
        [[0, -1, 4], [5, 2, 2]],
    ),
    _one_hot(
        "an axis between, opset 9, a depth of one element",
        "float[n, 2] x, int64[k, 3] i > float[k, m, 3] y",
        "float[2] v = {0.0, 1.0}, int64[1] one = {1}",
        "e = Reshape (d, one) y = OneHot <axis = -2> (i, e, v)",
        [[0, -1, 4], [5, 2, 2]],
        opset=9,
    ),
    _one_hot(
        "a depth that the values tell, in float",
        "float[n, 2] x, int64[k] i > float[k, m] y",
        "float[2] v = {0.0, 1.0}",
        """g = ReduceMax <keepdims = 0> (i) h = Add (g, d) j = Cast <to = 1> (h) y = OneHot (i, j, v)""",
        [0, 3, 2, 2],
    ),
)


def _hardmax(name: str, sizes: str, axis: str, opset: int, kind: str = "float") -> Example:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({kind}[{sizes}] x) => ({kind}[{sizes}] y)
        {{ y = Hardmax {axis} (x) }}"""
    given = tuple(int(size) if size.isdigit() else 4 for size in sizes.split(", "))
    numbers = np.arange(np.prod(given)) * 7 % 5  # the greatest one several times: the first of them counts
    feed = numbers.astype(np.float16 if kind == "float16" else np.float32).reshape(given)
    return Example(name, text, feeds={"x": feed})


_HARDMAX = (
    _hardmax("flattened, sizes unknown in front and behind", "n, 3, h, w", "<axis = 1>", 11),
    _hardmax("flattened by default, opset 9", "n, 3, h, w", "", 9),
    _hardmax("flattened, unknown in front alone", "n, m, 5, 3", "<axis = 2>", 11),
    _hardmax("the last axis before opset 13", "n, m, 5", "<axis = -1>", 12),
    _hardmax("one axis", "2, n, 3", "<axis = 1>", 13),
    _hardmax("a vector", "n", "<axis = 0>", 17),
    _hardmax("no elements", "2, 0, 3", "<axis = 1>", 17),
)

EXAMPLES: dict[str, tuple[Example, ...]] = {"dynamic-one-hot": _ONE_HOT, "dynamic-hardmax": _HARDMAX}

REFUSED: dict[str, tuple[str, ...]] = {
    "dynamic-one-hot": (
        """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x, int64[k] r, int64[l] i) => (float[a, b] y)
        <int64 zero = {0}, float[2] v = {0.0, 1.0}> {
            s = Shape (x) d = Gather (s, zero) j = Reshape (i, r) y = OneHot (j, d, v) }""",
    ),
}
