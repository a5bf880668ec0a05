"""Targets and faults: which faults a target has, and that every known one is listed."""

from pathlib import Path

import pytest

from tests.converter.rewrite.running import loaded
from trtsmith.converter.rewrite.phases import known_faults
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.target import FLAVOURS, RTX, TENSORRT, Fault, Target, version_of

FAULT = Fault("tensorrt_rtx", ("1.6.1",), "counts twice", "an engine run on an H200", fixed="1.8")


@pytest.mark.parametrize(
    ("target", "concerned"),
    [
        (Target("tensorrt_rtx", (1, 6, 1, 120)), True),
        (Target("tensorrt_rtx", (1, 7, 1, 116)), True),  # nobody could look whether it is gone
        (Target("tensorrt_rtx", (1, 8)), False),
        (Target("tensorrt_rtx", (2, 0)), False),
        (RTX, True),  # of an unknown version
        (Target("tensorrt", (1, 6, 1)), False),
    ],
)
def test_a_fault_concerns_its_flavour_until_it_is_fixed(target: Target, concerned: bool) -> None:
    assert FAULT.concerns(target) is concerned


def test_a_fault_without_a_fix_stays_on() -> None:
    assert Fault("tensorrt", ("10.1",), "x", "y").concerns(Target("tensorrt", (99,)))


def test_a_fault_is_told_with_the_version_in_which_it_was_seen() -> None:
    assert str(FAULT) == "TensorRT-RTX 1.6.1 counts twice"
    assert RTX.title == "TensorRT-RTX" and Target("tensorrt", (10, 16, 1, 11)).title == "TensorRT 10.16.1.11"


def test_every_fault_says_whose_it_is_where_it_was_seen_and_how() -> None:
    faults = known_faults()
    assert len(faults) > 10
    for name, fault in faults:
        assert name and fault.what and fault.evidence and fault.flavour in FLAVOURS
        assert fault.seen and all(version_of(version) for version in fault.seen)
    assert {name for name, _ in faults} > {rule.name for rule in RULES if rule.faults}


LSTM = """<ir_version: 8, opset_import: ["" : 14]>
g (float[5, 1, 3] x) => (float[5, 1, 1, 4] y) <float[1, 16, 3] w = {WEIGHTS}, float[1, 16, 4] r = {MORE}> {
    y = LSTM <hidden_size = 4> (x, w, r)
}"""


def test_a_part_of_a_rule_is_for_the_target_whose_fault_it_is(tmp_path: Path) -> None:
    text = LSTM.replace("WEIGHTS", ", ".join(["0.1"] * 48)).replace("MORE", ", ".join(["0.2"] * 64))
    model = loaded(text, tmp_path)
    (record,) = rewrite(model, RTX).rewrites
    assert record.notes == (
        "TensorRT-RTX 1.6.1 never ends with one sequence and hidden_size 2 to 6: a copy of it goes along",
    )
    assert rewrite(model, TENSORRT).rewrites == ()
