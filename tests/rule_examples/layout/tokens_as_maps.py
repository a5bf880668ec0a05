"""Models that the rule tokens-as-maps takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_X = np.random.default_rng(3).normal(size=(2, 6, 5)).astype(np.float16)


def _example(name: str, opset: int, x: str, target: str, y: str, weights: str = "") -> Example:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float16[{x}] x) => (float16[{y}] y) {weights} {{
            turned = Transpose <perm = [0, 2, 1]> (x)
            {target}
            y = Reshape (turned, sizes)
        }}"""
    return Example(name, text, feeds={"x": _X} if "n" in x else {"x": _X[:, :6]})


_EXAMPLES = (
    _example("fixed sizes", 17, "2, 6, 5", "", "2, 5, 2, 3", "<int64[4] sizes = {2, 5, 2, 3}>"),
    _example(
        "sizes that are copied, and one that is left",
        13,
        "n, 6, 5",
        "",
        "n, 5, 2, 3",
        "<int64[4] sizes = {0, 0, 2, -1}>",
    ),
    _example(
        "the batch is left, and a volume",
        13,
        "n, 6, 5",
        "",
        "n, 5, 1, 3, 2",
        "<int64[5] sizes = {-1, 5, 1, 3, 2}>",
    ),
    _example(
        "sizes joined as PyTorch's newer exporter has them",
        17,
        "n, 6, 5",
        """first = Shape <start = 0, end = 1> (x)
            sizes = Concat <axis = 0> (first, channels, rows, columns)""",
        "n, 5, 3, 2",
        "<int64[1] channels = {5}, int64[1] rows = {3}, int64[1] columns = {2}>",
    ),
    _example(
        "and its older one",
        13,
        "n, 6, 5",
        """all = Shape (x)
            size = Gather <axis = 0> (all, zero)
            first = Unsqueeze (size, axes)
            sizes = Concat <axis = 0> (first, channels, rows, columns)""",
        "n, 5, 3, 2",
        "<int64 zero = {0}, int64[1] axes = {0}, int64[1] channels = {5}, int64[1] rows = {3}, int64[1] columns = {2}>",
    ),
)


EXAMPLES = {"tokens-as-maps": _EXAMPLES}
