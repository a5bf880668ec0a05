"""Models that the rule masked-fill takes."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_MASK = np.arange(12).reshape(3, 4) % 3 == 1


def _model(given: str, value: str, expanded: str = "", taken: str = "mask") -> str:
    return f"""<ir_version: 8, opset_import: ["" : 18]>
    g ({given}) => (float[3,4,2] y) <int64[1] all = {{-1}}, float number = {{0.5}}, float[1] numbers = {{-2}}> {{
        {expanded}
        places = NonZero ({taken})
        rows = Transpose <perm = [1, 0]> (places)
        sizes = Shape (rows)
        begin = Constant <value_ints = [0]> ()
        end = Constant <value_ints = [1]> ()
        count = Slice (sizes, begin, end)
        {value}
        y = ScatterND (x, rows, values)
    }}"""


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "masked-fill": (
        Example(
            "by elements, as PyTorch's dynamo exporter writes it",
            _model(
                "float[n,4,2] x, bool[n,4,1] mask",
                "values = Expand (number, count)",
                "shape = Shape (x)\n whole = Expand (mask, shape)",
                "whole",
            ),
            feeds={"x": np.ones((3, 4, 2), np.float32), "mask": _MASK[:, :, None]},
        ),
        Example(
            "by rows",
            _model(
                "float[3,4,2] x, bool[3,4] mask",
                "pair = Constant <value_ints = [2]> ()\n each = Concat <axis = 0> (count, pair)\n"
                "values = Expand (numbers, each)",
            ),
            feeds={"mask": _MASK},
        ),
        Example(
            "a mask of numbers, a value that is given",
            _model(
                "float[3,4,2] x, int32[3,4,2] mask, float[1,1] v",
                "many = Expand (v, count)\n values = Reshape (many, all)",
            ),
            feeds={"mask": np.repeat(_MASK[:, :, None], 2, 2).astype(np.int32) * 3},
        ),
    ),
}
