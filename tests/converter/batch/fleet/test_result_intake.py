"""What comes from another machine is taken in whole, or not at all; nothing of it lands outside of its folder."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.converter.batch.workers import left_in, task
from trtsmith.converter.batch.fleet.node_task import Began, FilePart
from trtsmith.converter.batch.fleet.result_intake import DamagedResult, ResultIntake
from trtsmith.converter.batch.fleet.task_ends import lost_end
from trtsmith.converter.batch.run.not_run import record_of
from trtsmith.converter.batch.task_record import FileFacts, TaskRecord, TaskStatus

DATA = bytes(range(256)) * 10
TASK = task("net")


def facts(data: bytes) -> FileFacts:
    return FileFacts(hashlib.sha256(data).hexdigest(), len(data))


def record(**files: bytes) -> TaskRecord:
    return replace(
        record_of(TASK, TaskStatus.AGREE),
        problems=(),
        files={name.replace("__", "/").replace("_", "."): facts(data) for name, data in files.items()},
    )


def part(name: str, data: bytes) -> FilePart:
    return FilePart(name, np.frombuffer(data, np.uint8))


def test_pieces_become_files(tmp_path: Path) -> None:
    intake = ResultIntake(TASK, tmp_path)
    intake.take_record(record(model_plan=DATA, lib__a_so=b"so", none=b"").to_json())
    for name, data in (("lib/a.so", b"so"), ("model.plan", DATA[:100]), ("model.plan", DATA[100:])):
        intake.take_part(part(name, data))
    ended = intake.ended(2)
    assert ended.folder is not None and left_in(ended.folder) == ["lib/a.so", "model.plan", "none"]
    assert (ended.folder / "model.plan").read_bytes() == DATA
    assert (ended.record.status, ended.record.attempts) == (TaskStatus.AGREE, 2)
    intake.discard()
    assert ended.folder.is_dir()  # it is the caller's now


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "other"])
def test_a_file_that_no_record_names_or_that_lies_elsewhere_is_not_written(tmp_path: Path, name: str) -> None:
    intake = ResultIntake(TASK, tmp_path / "in")
    (tmp_path / "in").mkdir()
    named = {} if name == "other" else {name: facts(b"x")}
    intake.take_record(replace(record(), files=named).to_json())
    with pytest.raises(DamagedResult):
        intake.take_part(part(name, b"x"))
    intake.discard()
    assert left_in(tmp_path) == []


def test_what_is_not_whole_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedResult, match="without a record"):
        ResultIntake(TASK, tmp_path).ended(1)
    for pieces in ([], [part("model.plan", DATA[:-1])], [part("model.plan", DATA), part("model.plan", b"x")]):
        intake = ResultIntake(TASK, tmp_path)
        intake.take_record(record(model_plan=DATA).to_json())
        for piece in pieces:
            intake.take_part(piece)
        with pytest.raises(DamagedResult, match=r"model\.plan is not what its record says"):
            intake.ended(1)
        intake.discard()
    assert left_in(tmp_path) == []


def test_a_task_that_ray_ended_for_want_of_memory_is_so_called() -> None:
    began = Began("node", "host", 7)
    ended = lost_end(
        TASK, RuntimeError("Task was killed due to the node running low on memory."), began, 3, True
    )
    assert ended.record.status is TaskStatus.MEMORY and ended.record.attempts == 3
    assert "running low on memory" in ended.record.problems[0].what
    assert ended.record.place == {"host": "host", "gpu": "", "pid": 7}
