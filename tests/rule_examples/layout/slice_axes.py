"""Models that the rule slice-axes takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "fewer starts",
        """<ir_version: 7, opset_import: ["" : 11]>
        g (float[3, 4, 2] x) => (float[1, 2, 2] y) <int32[2] start = {1, -3}, int32[2] end = {2, -1}> {
            y = Slice (x, start, end)
        }""",
    ),
    Example(
        "int32 without steps",
        """<ir_version: 7, opset_import: ["" : 11]>
        g (float[3, n] x) => (float[3, 1] y) <int32[1] start = {1}, int32[1] end = {2}, int32[1] axis = {-1}> {
            y = Slice (x, start, end, axis)
        }""",
        feeds={"x": np.arange(6, dtype=np.float32).reshape(3, 2)},
    ),
    Example(
        "steps",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[3, n] x) => (float[2, n] y) <int64[1] start = {2}, int64[1] end = {-4}, int64[1] step = {-2}> {
            y = Slice (x, start, end, , step)
        }""",
        feeds={"x": np.arange(6, dtype=np.float32).reshape(3, 2)},
    ),
    Example(
        "rows that the graph computes",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[n, 2] x) => (float[m, 2] y) <int64[1] zero = {0}, int64[1] one = {1}> {
            shape = Shape (x)  rows = Slice (shape, zero, one)  end = Sub (rows, one)
            y = Slice (x, one, end)
        }""",
        feeds={"x": np.arange(12, dtype=np.float32).reshape(6, 2)},
    ),
    Example(
        "nothing",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 3] x) => (float[2, 3] y) <int64[0] none = {}> { y = Slice (x, none, none) }""",
    ),
    Example(
        "a flip of nothing",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[0, 4] x) => (float[0, 4] y) <int64[1] last = {-1}, int64[1] end = {-5}, int64[1] axis = {0}> {
            y = Slice (x, last, end, axis, last)
        }""",
        feeds={"x": np.zeros((0, 4), np.float32)},
    ),
    Example(
        "a flip of nothing, and of columns",
        """<ir_version: 8, opset_import: ["" : 18]>
        g (float[4, 0] x) => (float[2, 0] y)
        <int64[2] last = {-1, -1}, int64[2] axes = {-1, 0}, int64[2] step = {-1, -2}, int64[2] end = {-9, -9}> {
            y = Slice (x, last, end, axes, step)
        }""",
        feeds={"x": np.zeros((4, 0), np.float32)},
    ),
)

EXAMPLES = {"slice-axes": _EXAMPLES}
