"""Branches of different sizes, built for a range of them; the rule's examples have one size each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.rewrite.running import engine_size, loaded
from tests.rule_examples.control_flow.uneven_branches import BEHIND, BRANCHES, SAME, chosen
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX

NAME = "uneven-branches"


def rules_of(text: str, folder: Path) -> set[str]:
    return {record.pass_name for record in rewrite(loaded(text, folder), target=RTX).rewrites}


@pytest.mark.parametrize("branches", BRANCHES)
@pytest.mark.parametrize("behind", BEHIND)
def test_tensorrt_builds_it_for_a_range(branches: str, behind: str, tmp_path: Path) -> None:
    result = rewrite(loaded(chosen(*BRANCHES[branches], BEHIND[behind]), tmp_path), target=RTX)
    assert NAME in {record.pass_name for record in result.rewrites}
    profile = {"x": Profile((1, 3, 4, 4), (1, 3, 8, 8), (2, 3, 16, 20))}
    assert engine_size(result, tmp_path, profile) > 0


@pytest.mark.parametrize("batch", [1, 2])
def test_a_resize_behind_other_sizes_is_built(batch: int, tmp_path: Path) -> None:
    """With a fixed batch the If is built as it is, and a Resize behind it is not."""
    name = "1" if batch == 1 else "N"
    larger = f"{name}, 3, R, C: rows = Concat <axis = 2> (x, x) u = Concat <axis = 3> (rows, rows)"
    text = chosen(larger, f"{name}, 3, H, W: v = Relu (x)", BEHIND["linear"], name)
    result = rewrite(loaded(text, tmp_path), target=RTX)
    profile = {"x": Profile((1, 3, 4, 4), (1, 3, 8, 8), (batch, 3, 16, 20))}
    assert engine_size(result, tmp_path, profile) > 0


def test_an_if_with_a_fixed_batch_that_shares_another_size_is_taken(tmp_path: Path) -> None:
    text = chosen("1, 3, H, R: u = Concat <axis = 3> (x, x)", "1, 3, H, W: v = Relu (x)", batch="1")
    assert NAME in rules_of(text, tmp_path)


@pytest.mark.parametrize(
    ("then", "batch"),
    [
        ("N, 3, H, W: u = Neg (x)", "N"),  # no size differs
        (
            "1, 3, R, C: rows = Concat <axis = 2> (x, x) u = Concat <axis = 3> (rows, rows)",
            "1",
        ),  # none is shared
        (
            "N, R, H, C: more = Concat <axis = 1> (x, x) u = Concat <axis = 3> (more, more)",
            "N",
        ),  # N joins R, H joins C
    ],
)
def test_others_are_left_alone(then: str, batch: str, tmp_path: Path) -> None:
    assert NAME not in rules_of(chosen(then, SAME.replace("N", batch), batch=batch), tmp_path)
