"""Progress lines for long steps."""

from __future__ import annotations

import threading
import time

import pytest

from trtsmith.converter.base import progress
from trtsmith.converter.base.progress import ProgressReporter, progress_reports, steps_of

WAIT_S = 20.0


class Heard:
    """Keeps lines, and waits for one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = threading.Condition()

    def __call__(self, text: str) -> None:
        with self._more:
            self.lines.append(text)
            self._more.notify_all()

    def wait_for(self, count: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.lines) >= count, WAIT_S), self.lines


def test_a_long_step_is_named_again_and_again() -> None:
    heard = Heard()
    telling = ProgressReporter(heard, first_s=0.01, period_s=0.02)
    telling("building")
    heard.wait_for(3)
    telling.end()
    assert heard.lines[:3] == ["building", "building: 0 s so far", "building: 0 s so far"]


def test_a_step_is_named_again_when_it_has_taken_twice_as_long() -> None:
    heard = Heard()
    begun = time.monotonic()
    telling = ProgressReporter(heard, first_s=0.02, period_s=0.02)
    telling.step("building")
    heard.wait_for(6)  # at 0.02, 0.04, 0.08, ..., 0.64 s, where every 0.02 s would be 0.12 s
    assert time.monotonic() - begun >= 0.64
    telling.end()


def test_a_step_without_a_word_is_named_when_it_takes_long() -> None:
    heard = Heard()
    telling = ProgressReporter(heard, first_s=0.05, period_s=WAIT_S)
    for number in range(50):
        telling.step(f"step {number}")
    heard.wait_for(1)
    telling.end()
    assert heard.lines[-1] == "step 49: 0 s so far"


def test_a_step_that_takes_very_long_is_told_with_what_leaves_its_stage_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "LONG_S", 0.0)
    heard = Heard()
    telling = ProgressReporter(heard, first_s=0.01, period_s=0.01)
    telling.stage("verify", "--no-verify skips the comparison")
    telling.step("running the engine")
    heard.wait_for(1)
    telling.stage("bundle")
    telling.step("writing")
    heard.wait_for(len(heard.lines) + 2)
    telling.end()
    assert heard.lines[0] == "running the engine: 0 s so far; --no-verify skips the comparison"
    assert heard.lines[-1] == "writing: 0 s so far"


def test_nothing_is_said_after_an_end() -> None:
    heard = Heard()
    telling = ProgressReporter(heard, first_s=0.0, period_s=0.0)
    telling.done("build: 3 s")
    telling.end()
    telling.step("another")
    assert heard.lines == ["build: 3 s"]


def test_the_thread_ends_with_the_context() -> None:
    before = threading.active_count()
    with progress_reports(Heard()) as telling, progress_reports(telling) as again:
        assert again is telling  # one thread, whoever else asks
        assert threading.active_count() == before + 1
        steps_of(telling)("short")
    assert threading.active_count() == before


def test_short_steps_are_not_told_to_a_plain_function() -> None:
    heard = Heard()
    steps_of(heard)("short")
    assert heard.lines == []
