"""Loops that look like PyTorch's EmbeddingBag, but compute something else, are no reduction of bags."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.rewrite.running import loaded
from tests.rule_examples.control_flow.bag_reductions import JOINED, collected
from trtsmith.converter.rewrite.rewrite import rewrite

COLLECTED = collected("ReduceSum")
NAME = "bag-reductions"


def rules_of(text: str, folder: Path) -> set[str]:
    return {record.pass_name for record in rewrite(loaded(text, folder)).rewrites}


@pytest.mark.parametrize("text", [COLLECTED, JOINED])
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
        (JOINED, "Slice (ends, k2, k3)", "Slice (ends, k1, k3)"),
        (JOINED, "Equal (start, end)", "Equal (start, start)"),
        (JOINED, "{0, 0}", "{0, 1}"),
        (JOINED, "ReduceSum (part, at)", "ReduceMax (part, at)"),
        (JOINED, "Less (zero, runs)", "Less (one, runs)"),
        (JOINED, "Add (k, one)", "Add (k, two)"),
        (JOINED, "<axis = 0> (rows)", "<axis = 1> (rows)"),
    ],
)
def test_others_are_left_alone(text: str, old: str, new: str, tmp_path: Path) -> None:
    assert old in text
    assert NAME not in rules_of(text.replace(old, new), tmp_path)
