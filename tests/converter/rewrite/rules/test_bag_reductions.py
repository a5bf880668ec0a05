"""Loops that resemble PyTorch's EmbeddingBag but compute something else stay unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.rewrite.running import loaded
from tests.rule_examples.control_flow.bag_reductions import LARGEST, MEAN, SUM, collected, padded
from trtsmith.converter.rewrite.rewrite import rewrite

COLLECTED = collected("ReduceSum")
PADDED = padded("ReduceMean")
ENDED = "near = Less (after, runs)  f = Gather (i, k)  small = Less (f, two)  more = And (near, small)"
NAME = "bag-reductions"


def rules_of(text: str, folder: Path) -> set[str]:
    return {record.pass_name for record in rewrite(loaded(text, folder)).rewrites}


@pytest.mark.parametrize("text", [COLLECTED, SUM, MEAN, LARGEST, PADDED, padded("ReduceSum", "4")])
def test_the_loop_goes(text: str, tmp_path: Path) -> None:
    done = rewrite(loaded(text, tmp_path))
    assert NAME in {record.pass_name for record in done.rewrites}
    assert {"Loop", "If"}.isdisjoint(node.op_type for node in done.model.proto.graph.node)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (COLLECTED, "ReduceSum <", "ReduceProd <"),
        (COLLECTED, "(rows, at)", "(rows, next)"),
        (COLLECTED, "Gather (ends, run)", "Gather (ends, zero)"),
        (COLLECTED, "Cast <to = 9> (yes)", "Equal (run, two)"),
        (COLLECTED, "bool yes = {1}", "bool yes = {0}"),
        (COLLECTED, "Gather (table, part)", "Gather <axis = 1> (table, part)"),
        (SUM, "Slice (ends, k2, k3)", "Slice (ends, k1, k3)"),
        (SUM, "Equal (start, end)", "Equal (start, start)"),
        (SUM, "{0, 0}", "{0, 1}"),
        (SUM, "ReduceSum (part, at)", "ReduceProd (part, at)"),
        (LARGEST, "Equal (k, before)", "Equal (k, runs)"),
        (LARGEST, "Slice (all_rows, start, size)", "Slice (all_rows, end, size)"),
        (MEAN, "Sub (runs, one)", "Sub (runs, two)"),
        (MEAN, "Greater (count, zero)", "Greater (count, one)"),
        (MEAN, "Sub (rows, start)", "Sub (rows, end)"),
        (MEAN, "total = ReduceSum", "total = ReduceMax"),
        (MEAN, "Shape <start = 0, end = 1> (i)", "Shape <start = 0, end = 2> (all_rows)"),
        (MEAN, "Div (total, divisor)", "Div (divisor, total)"),
        (SUM, "Less (zero, runs)", "Less (one, runs)"),
        (SUM, "Add (k, one)", "Add (k, two)"),
        (
            SUM,
            "more = Less (after, runs)",
            "near = Less (after, runs) f = Gather (i, k) g = Less (f, two) more = And (near, g)",
        ),
        (PADDED, "then = Add (j, one)", "then = Add (j, two)"),
        (PADDED, "on = Less (then, end)", "on = Less (j, end)"),
        (PADDED, "any = Less (start, end)", "any = Less (start, after)"),
        (PADDED, "Gather (i, j)", "Gather (i, k)"),
        (PADDED, "as_before = Identity (before)", "as_before = Slice (before, next, most)"),
        (PADDED, "place = Reshape (j, minus)", "place = Reshape (k, minus)"),
        (PADDED, "Concat <axis = 0> (before, place)", "Concat <axis = 0> (place, before)"),
        (PADDED, "is_row = Not (is_padding)", "is_row = Less (number, two)"),
        (PADDED, "from_end = Add (index, four)", "from_end = Mul (index, four)"),
        (PADDED, "same = Identity (index)", "same = Identity (j)"),
        (PADDED, "negative = Less (index, zero)", "negative = Less (index, one)"),
        (PADDED, "count = Size (rows)", "count = Size (at)"),
        (PADDED, "nothing = Equal (count, zero)", "nothing = Equal (count, one)"),
        (PADDED, "Gather (all_rows, rows)", "Gather <axis = 1> (all_rows, rows)"),
        (SUM, "<axis = 0> (bags)", "<axis = 1> (bags)"),
    ],
)
def test_others_are_left_alone(text: str, old: str, new: str, tmp_path: Path) -> None:
    assert old in text
    assert NAME not in rules_of(text.replace(old, new), tmp_path)


def test_rows_of_many_steps_are_left_alone(tmp_path: Path) -> None:
    """Each of 40 squares would be read twice for each that reads it."""
    squares = "\n".join(f"r{i + 1} = Mul (r{i}, r{i})" for i in range(40))
    text = collected("ReduceSum", f"r0 = Gather (table, part)\n{squares}\n rows = Mul (r40, r40)")
    assert NAME not in rules_of(text, tmp_path)
