"""Models that the rule scalar-range takes, and one that it refuses."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_EXAMPLES = (
    Example(
        "an end that an If makes",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2,m] x) => (float[m] y) {
            two = Constant <value_int = 2> ()
            zero = Constant <value_int = 0> ()
            one = Constant <value_int = 1> ()
            first = Constant <value_ints = [0]> ()
            second = Constant <value_ints = [1]> ()
            third = Constant <value_ints = [2]> ()
            dims = Shape (x)
            rank = Size (dims)
            flat = Equal (rank, two)
            end = If (flat) <
                then_branch = t () => (v) { v = Slice (dims, second, third) },
                else_branch = e () => (s) { s = Squeeze (dims) }>
            r = Range (zero, end, one)
            f = Cast <to = 1> (r)
            sum = ReduceSum (x, first)
            row = Squeeze (sum, first)
            y = Add (row, f)
        }""",
        feeds={"x": np.arange(6, dtype=np.float32).reshape(2, 3)},
    ),
)


EXAMPLES = {"scalar-range": _EXAMPLES}
REFUSED: dict[str, tuple[str, ...]] = {
    "scalar-range": (
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int64[2] x) => (int64[n] y) {
            zero = Constant <value_int = 0> ()
            one = Constant <value_int = 1> ()
            y = Range (zero, x, one)
        }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (int64[n] y) <int64 zero = {0}, int64 one = {1}, int64[0] scalar = {}> {
            whole = Cast <to = 7> (x)
            end = Reshape (whole, scalar)
            y = Range (zero, end, one)
        }""",
    ),
}
