"""Task records survive a round trip, and nothing else is accepted as one."""

from __future__ import annotations

import json

import pytest

from trtsmith.converter.batch.task import SCHEMA, FileFacts, TaskRecord, TaskStatus
from trtsmith.importers.problem import Problem

RECORD = TaskRecord(
    "net/sm86",
    "net",
    {"target": "sm86"},
    TaskStatus.REFUSED,
    key="k",
    command=("trtsmith", "convert", "net.onnx"),
    files={"model.plan": FileFacts("ab" * 32, 3)},
    report={"converted": False},
    problems=(Problem("what", "where", "expected", "fix"),),
    warnings=("w",),
    seconds={"total": 1.5},
    place={"host": "h", "gpu": "", "pid": 1},
    versions={"trtsmith": "1"},
    began="2026-01-01T00:00:00Z",
    attempts=2,
)


def test_what_is_written_is_read() -> None:
    assert TaskRecord.from_json(json.dumps(RECORD.to_json())) == RECORD


@pytest.mark.parametrize(
    "change",
    [{"schema": SCHEMA + 1}, {"status": "fine"}, {"problems": [{}]}, {"files": {"a": {"sha256": "1"}}}],
)
def test_nothing_else_is_one(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"schema|status|problems|files|what|bytes"):
        TaskRecord.from_json(json.dumps(RECORD.to_json() | change))


def test_what_would_end_the_same_way_is_not_done_again() -> None:
    assert {status for status in TaskStatus if status.settled} == {
        TaskStatus.AGREE,
        TaskStatus.CONVERTED,
        TaskStatus.DISAGREE,
        TaskStatus.NOT_COMPARABLE,
        TaskStatus.REFUSED,
    }
    assert {status for status in TaskStatus if status.passed} == {TaskStatus.AGREE, TaskStatus.CONVERTED}
