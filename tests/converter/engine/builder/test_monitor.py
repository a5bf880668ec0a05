"""The progress of a build from TensorRT's phases, in any order and from any thread."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.converter.models import written
from trtsmith.converter.base.progress import Steps
from trtsmith.converter.engine.builder.build import build
from trtsmith.converter.engine.builder.build_request import BuildRequest
from trtsmith.converter.engine.builder.monitor import BuildMonitor, BuildShare, PhaseLines
from trtsmith.converter.engine.child.events import Events, tell


class Recorded(Steps):
    """Keeps what it is told, with what told it."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []
        self.shares: list[tuple[str, float]] = []

    def __call__(self, text: str) -> None:
        self.steps.append(text)

    step = done = __call__

    def note(self, text: str) -> None:
        self.notes.append(text)

    def share(self, part: str, done: float, text: str) -> None:
        del text
        self.shares.append((part, done))


def test_a_phase_counts_for_its_step_of_the_phase_around_it() -> None:
    share = BuildShare()
    assert (share.share(), share.part()) == (0.0, "")
    share.start("engine", None, 4)
    share.start("cloning", "engine", 10)
    share.step("cloning", 4)
    assert (share.share(), share.part()) == (pytest.approx(0.125), "cloning")
    share.finish("cloning")
    share.step("engine", 2)  # TensorRT leaves steps out
    assert (share.share(), share.part()) == (0.75, "engine")


def test_the_share_never_falls_and_never_passes_one() -> None:
    share = BuildShare()
    share.start("engine", None, 2)
    share.start("a", "engine", 2)
    share.step("a", 1)
    share.finish("a")  # before its step of the engine is complete
    share.start("b", "engine", 0)
    assert share.share() == 0.5
    share.step("b", 7)
    share.step("engine", 9)
    assert share.share() == 1.0
    share.step("nobody", 1)
    share.finish("nobody")


def test_phases_that_change_too_fast_to_read_are_not_named() -> None:
    share = BuildShare()
    for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "d")):
        share.start(name, parent, 2)
    share.step("e", 0)
    assert share.part() == "c"
    assert share.share() == pytest.approx(2**-5)


def events_of(read_end: int) -> list[dict[str, Any]]:
    with os.fdopen(read_end, "rb") as stream:
        return [json.loads(line) for line in stream.read().splitlines()]


def test_shares_are_sent_some_times_a_second_and_lines_as_seldom_as_before() -> None:
    read_end, write_end = os.pipe()
    now = [0.0]
    monitor = BuildMonitor(Events(write_end), lambda: now[0])
    monitor.phase_start("engine", None, 640)
    for number in range(640):  # five seconds
        now[0] += 2**-7
        assert monitor.step_complete("engine", number)
    monitor.phase_finish("engine")
    os.close(write_end)
    sent = events_of(read_end)
    assert 40 <= len(sent) <= 55
    texts = ["engine (640 steps)", "engine (256/640)", "engine (512/640)"]
    assert [event["text"] for event in sent if event["text"]] == texts
    assert [event["done"] for event in sent] == sorted(event["done"] for event in sent)


def test_a_phase_of_one_step_has_no_count() -> None:
    lines = PhaseLines(lambda: 0.0)
    assert lines.start("Building engine from subgraph", None, 1) == "Building engine from subgraph"


def test_threads_do_not_mix_their_lines() -> None:
    read_end, write_end = os.pipe()
    events = Events(write_end)
    found: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: found.extend(events_of(read_end)))
    reader.start()
    text = "x" * 70000  # more than a pipe takes at once
    writers = [threading.Thread(target=lambda: [events.note(text) for _ in range(20)]) for _ in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    os.close(write_end)
    reader.join()
    assert len(found) == 80 and {event["text"] for event in found} == {text}


def test_a_build_is_stopped_for_a_parent_that_is_gone() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    monitor = BuildMonitor(Events(write_end))
    monitor.phase_start("engine", None, 2)
    assert not monitor.step_complete("engine", 0)
    os.close(write_end)


def test_a_plain_function_hears_lines_and_nothing_else() -> None:
    lines: list[str] = []
    shown = Recorded()
    for event in (
        {"text": "building"},
        {"text": "", "part": "cloning", "done": 0.5},
        {"text": "cloning (1/2)", "part": "cloning", "done": 0.5},
        {"text": "TensorRT: said", "note": True},
    ):
        tell(event, lines.append)
        tell(event, shown)
    assert lines == ["building", "cloning (1/2)", "TensorRT: said"]
    assert (shown.steps, shown.notes) == (["building"], ["TensorRT: said"])
    assert shown.shares == [("cloning", 0.5)] * 2


def test_a_real_build_says_how_far_it_is(tmp_path: Path) -> None:
    body = " ".join(f"[n{i}] v{i + 1} = Sin (v{i})" for i in range(60))
    model = written(tmp_path / "m.onnx", f"(float[2,3] v0) => (float[2,3] v60) {{ {body} }}")
    shown = Recorded()
    build(BuildRequest(model, tmp_path / "m.plan", flavour="tensorrt_rtx", verbose=True), shown)
    phases = ["loading TensorRT", "parsing the model", "building the engine", "writing the engine"]
    assert [text for text in shown.steps if text in phases] == phases
    assert not any("Cloning" in text for text in (*shown.steps, *shown.notes))
    shares = [done for _, done in shown.shares]
    assert shares and shares == sorted(shares) and shares[0] >= 0 and shares[-1] <= 1
    assert any(part for part, _ in shown.shares)
    assert shown.notes and all(note.startswith("TensorRT: ") for note in shown.notes)
    assert not any("Producer name" in note for note in shown.notes)
