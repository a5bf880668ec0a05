"""One in ten of the networks that test the judge, and the completeness of its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgeproof import judge_proof
from judgeproof.proof_networks import TUNED, UNIT, names

FOUND_ALWAYS = (
    "two channels swapped",
    "NaN in one place",
    "one element 65504",
    "the last 32 elements unwritten",
    "the largest element lost",
)


@pytest.mark.parametrize("precision", list(UNIT))
def test_right_runs_agree_and_planted_errors_are_found(precision: str, tmp_path: Path) -> None:
    missed = []
    for name in names()[3::10]:
        case = judge_proof.Case(name, TUNED, precision, tmp_path)
        assert [(name, output, share) for output, share in case.right() if share > 1] == []
        outcomes = dict(case.planted())
        assert {kind: outcomes[kind] for kind in FOUND_ALWAYS} == dict.fromkeys(FOUND_ALWAYS, "found")
        missed += [(name, kind) for kind, outcome in outcomes.items() if outcome == "missed"]
    assert len(missed) <= 8, missed


def test_the_record_has_every_kind_and_precision() -> None:
    record = json.loads(judge_proof.RECORD.read_text(encoding="utf-8"))
    assert list(record["parts"]) == ["chosen with", "held out"] and record["networks"] == len(names())
    for part in record["parts"].values():
        assert list(part["precisions"]) == list(UNIT) and list(part["kinds"]) == list(judge_proof.KINDS)
