"""EyeLike of a size that is known at run time only: where the row's number and the column's differ by k."""

from __future__ import annotations

import numpy as np
from onnx import helper

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.statement_writer import CODES, Writer


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape = node.shape(0)
    if shape is not None and None not in shape:
        return None
    code = node.attributes.get("dtype")
    dtype = str(helper.tensor_dtype_to_np_dtype(code)) if code else node.dtype(0)
    if dtype not in CODES or node.opset < 11:
        return Refusal(
            f"EyeLike of type {dtype or 'unknown'} and unknown size in opset {node.opset}",
            f"one of {', '.join(sorted(CODES))}, and opset 11 or later",
            "give the input a fixed shape, or convert the model to a newer opset",
        )
    w = Writer(node)
    rows = w.unsqueeze(w.arange(w.size("x0", 0)), [1])
    columns = w.unsqueeze(w.arange(w.size("x0", 1)), [0])
    k = int(node.attributes.get("k", 0))
    shifted = w.do("Add", rows, w.const(np.array(k))) if k else rows
    w.cast(w.do("Equal", shifted, columns), dtype, result="y0")
    return Replacement(w.nodes(), "EyeLike by comparing the numbers of rows and columns")


_EXAMPLES = (
    Example(
        "cut at run time",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[5, 6] x, int64[1] n) => (float[3, 6] y) <int64[1] from = {0}, int64[1] axis = {0}> {
            part = Slice (x, from, n, axis)
            y = EyeLike <k = -1> (part)
        }""",
        feeds={"n": np.array([3])},
        builds=False,
        why="its size comes from an input, for which a build needs a profile",
    ),
)

EYE_LIKE = NodeRule(
    "eye-like", "EyeLike of a size of run time is a comparison", ("EyeLike",), _rewrite, _EXAMPLES
)
