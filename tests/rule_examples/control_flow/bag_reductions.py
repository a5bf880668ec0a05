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


def joined(row: str) -> str:
    """As the newer one does: with zeros for an empty bag. row: the statements that make the row of another, `row`."""
    return f"""{_HEAD.format(more="")}
    all_rows = Gather (table, i)
    runs = Size (o)
    empty = SequenceEmpty ()
    some = Less (zero, runs)
    bags, last = Loop ("", some, empty, zero) <
        body = b (int64 run, bool c, seq(float[]) so_far, int64 k) => (bool more, seq(float[]) longer, int64 after) {{
        after = Add (k, one)  more = Less (after, runs)
        k1 = Reshape (k, minus)  k2 = Add (k1, one)  k3 = Add (k1, two)
        start = Slice (ends, k1, k2)  end = Slice (ends, k2, k3)
        nothing = Equal (start, end)
        bag = If (nothing) <
            then_branch = t () => (float[1, 2] none) {{ none = Constant <value = float[1, 2] {{0, 0}}> () }},
            else_branch = f () => (float[P, Q] row) {{
                {row}
            }}>
        longer = SequenceInsert (so_far, bag)
    }}>
    y = ConcatFromSequence <axis = 0> (bags)
}}"""


SUM = joined("part = Slice (all_rows, start, end)  row = ReduceSum (part, at)")
LAST = "before = Sub (runs, one)  is_last = Equal (k, before)"
LARGEST = joined(
    f"""{LAST}
    part = If (is_last) <then_branch = l () => (float[L, M] a) {{ a = Slice (all_rows, start, size) }},
                         else_branch = m () => (float[L, M] b) {{ b = Slice (all_rows, start, end) }}>
    row = ReduceMax (part, at)"""
)
MEAN = joined(
    f"""part = Slice (all_rows, start, end)
    {LAST}
    row = If (is_last) <
        then_branch = l () => (float[L, M] a) {{
            total = ReduceSum (part, at)
            rows = Shape <start = 0, end = 1> (i)  count = Sub (rows, start)
            some_rows = Greater (count, zero)
            a = If (some_rows) <
                then_branch = q () => (float[L, M] d) {{ divisor = Cast <to = 1> (count)  d = Div (total, divisor) }},
                else_branch = r () => (float[L, M] e) {{ e = Identity (total) }}>
        }},
        else_branch = n () => (float[L, M] f) {{ f = ReduceMean (part, at) }}>"""
)


def padded(row: str, bags: str = "B") -> str:
    """As the newer one does with a padding_idx of 2. bags: their number. row: the statement that makes the row of a bag."""
    head = (
        _HEAD.format(more="")
        .replace("int64[B] o", f"int64[{bags}] o")
        .replace("yes = {1}", "yes = {1}, int64 four = {4}")
    )
    return f"""{head.replace("int64[1] at", "int64[0] none = {}, int64[1] at")}
    all_rows = Gather (table, i)
    runs = Size (o)
    empty = SequenceEmpty ()
    some = Less (zero, runs)
    bags, last = Loop ("", some, empty, zero) <
        body = b (int64 run, bool c, seq(float[]) so_far, int64 k) => (bool more, seq(float[]) longer, int64 after) {{
        start = Gather (ends, k)
        after = Add (k, one)  more = Less (after, runs)
        end = Gather (ends, after)
        any = Less (start, end)
        rows, behind = Loop ("", any, none, start) <
            body = p (int64 step, bool d, int64[K] before, int64 j) => (bool on, int64[L] now, int64 then) {{
            index = Gather (i, j)
            negative = Less (index, zero)
            number = If (negative) <then_branch = u () => (int64 from_end) {{ from_end = Add (index, four) }},
                                    else_branch = v () => (int64 same) {{ same = Identity (index) }}>
            is_padding = Equal (number, two)  is_row = Not (is_padding)
            now = If (is_row) <
                then_branch = x () => (int64[M] one_more) {{
                    place = Reshape (j, minus)  one_more = Concat <axis = 0> (before, place)
                }},
                else_branch = y () => (int64[K] as_before) {{ as_before = Identity (before) }}>
            then = Add (j, one)  on = Less (then, end)
        }}>
        count = Size (rows)
        nothing = Equal (count, zero)
        bag = If (nothing) <
            then_branch = t () => (float[1, 2] zeros) {{ zeros = Constant <value = float[1, 2] {{0, 0}}> () }},
            else_branch = f () => (float[P, Q] row) {{ part = Gather (all_rows, rows)  row = {row} (part, at) }}>
        longer = SequenceInsert (so_far, bag)
    }}>
    y = ConcatFromSequence <axis = 0> (bags)
}}"""


_FEEDS = {"i": np.array([3, 1, 0, 2, 2, 1], np.int64), "o": np.array([0, 1, 4], np.int64)}
# A bag of padding alone, an empty one, and two with and without padding, which -2 is, too.
_PADDED = {"i": np.array([2, 2, 1, -2, 3, 0, -1], np.int64), "o": np.array([0, 2, 2, 4], np.int64)}
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
        Example("rows in a sequence", SUM, feeds=_FEEDS),
        Example("means in a sequence", MEAN, feeds=_FEEDS),
        Example("largest in a sequence", LARGEST, feeds=_FEEDS),
        *(
            Example(name, text, feeds={**_FEEDS, "o": np.array([0, 2, 2, 5], np.int64)})
            for name, text in (("an empty sum", SUM), ("an empty mean", MEAN), ("an empty largest", LARGEST))
        ),
        *(
            Example(f"{kind} without padding, {name}", padded(kind, bags), feeds=_PADDED)
            for kind, bags, name in (
                ("ReduceSum", "B", "any number of bags"),
                ("ReduceMean", "B", "any number of bags"),
                ("ReduceMax", "B", "any number of bags"),
                ("ReduceMean", "4", "four bags"),
            )
        ),
    )
}
