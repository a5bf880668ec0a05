"""Models that the rule bag-reductions takes: loops over bags of rows as PyTorch's exporters write EmbeddingBag."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_HEAD = """<ir_version: 8, opset_import: ["" : 18]>
g (int64[N] i, int64[B] o{more}) => (float[C, D] y)
<float[4, 2] table = {{0.5, 1, -2, 3, 0.25, -1, 8, 5}}, int64[1] at = {{0}}, int64[1] next = {{1}}, int64[1] minus = {{-1}},
 int64[1] most = {{9223372036854775807}}, int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, bool yes = {{1}}> {{
    size = Shape (i)
    ends = Concat <axis = 0> (o, size)
"""


def collected(reduced: str, rows: str = "rows = Gather (table, part)", more: str = "") -> str:
    """As the older exporter writes it. reduced: the operator. rows: the statement that makes the rows of a bag."""
    return f"""{_HEAD.format(more=more)}
    behind = Slice (ends, next, most, at, next)
    runs = Size (behind)
    y = Loop (runs, yes) <body = b (int64 run, bool c) => (bool d, float[E] row) {{
        d = Cast <to = 9> (yes)
        s = Gather (ends, run)  e = Gather (behind, run)
        start = Unsqueeze (s, at)  end = Unsqueeze (e, at)
        part = Slice (i, start, end, at)
        {rows}
        row = {reduced} <keepdims = 0> (rows, at)
    }}>
}}"""


JOINED = f"""{_HEAD.format(more="")}
    all_rows = Gather (table, i)
    runs = Size (o)
    empty = SequenceEmpty ()
    some = Less (zero, runs)
    rows, last = Loop ("", some, empty, zero) <
        body = b (int64 run, bool c, seq(float[]) so_far, int64 k) => (bool more, seq(float[]) longer, int64 after) {{
        after = Add (k, one)  more = Less (after, runs)
        k1 = Reshape (k, minus)  k2 = Add (k1, one)  k3 = Add (k1, two)
        start = Slice (ends, k1, k2)  end = Slice (ends, k2, k3)
        nothing = Equal (start, end)
        row = If (nothing) <
            then_branch = t () => (float[1, 2] none) {{ none = Constant <value = float[1, 2] {{0, 0}}> () }},
            else_branch = f () => (float[P, Q] sum) {{
                part = Slice (all_rows, start, end)
                sum = ReduceSum (part, at)
            }}>
        longer = SequenceInsert (so_far, row)
    }}>
    y = ConcatFromSequence <axis = 0> (rows)
}}"""
"""As the newer one does: with zeros for an empty bag."""

_FEEDS = {"i": np.array([3, 1, 0, 2, 2, 1], np.int64), "o": np.array([0, 1, 4], np.int64)}
_SCALED = "found = Gather (table, part)\n f = Slice (by, start, end, at)\n u = Unsqueeze (f, next)\n rows = Mul (found, u)"

EXAMPLES = {
    "bag-reductions": (
        Example("sum", collected("ReduceSum"), feeds=_FEEDS),
        Example("mean", collected("ReduceMean"), feeds=_FEEDS),
        Example("largest", collected("ReduceMax"), feeds=_FEEDS),
        Example(
            "rows by weights",
            collected("ReduceSum", _SCALED, ", float[N] by"),
            feeds={**_FEEDS, "by": np.array([1, -2, 0.5, 3, 0, 4], np.float32)},
        ),
        Example("rows in a sequence", JOINED, feeds=_FEEDS),
        Example("an empty bag", JOINED, feeds={"i": _FEEDS["i"], "o": np.array([0, 2, 2, 5], np.int64)}),
    )
}
