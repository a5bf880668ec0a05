"""Loops that resemble PyTorch's repeat_interleave but compute something else stay unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.rewrite.running import loaded, problems_of
from tests.rule_examples.control_flow.repeated_slices import EXAMPLES
from trtsmith.converter.rewrite.rewrite import rewrite

ROWS = EXAMPLES["repeated-slices"][0].text


def test_the_loop_goes(tmp_path: Path) -> None:
    nodes = rewrite(loaded(ROWS, tmp_path)).model.proto.graph.node
    assert {"Loop", "SplitToSequence"}.isdisjoint(node.op_type for node in nodes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Gather (shape, which)", "ReduceSum <keepdims = 0> (times)"),
        ("bool yes = {1}", "bool yes = {0}"),
        ("SequenceAt (slices, i)", "SequenceAt (slices, which)"),
        ("<value = int64[1] {1}> (lengths)", "<value = int64[1] {2}> (lengths)"),
        ("before = {1}", "before = {2}"),
        ("back = {-1, 3}", "back = {3, -1}"),
        ("ConcatFromSequence <axis = 0>", "ConcatFromSequence <axis = 1>"),
    ],
)
def test_others_are_left_alone(old: str, new: str, tmp_path: Path) -> None:
    assert old in ROWS
    problems = problems_of(ROWS.replace(old, new), tmp_path)
    assert any("ConcatFromSequence" in problem.where for problem in problems)
