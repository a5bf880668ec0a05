"""Child side: computes the progress of a build from TensorRT's progress monitor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from trtsmith.converter.engine.child.events import Events

_LINE_PERIOD_S = 2.0  # TensorRT reports thousands of steps for a large network
_SHARE_PERIOD_S = 0.1  # for a line that is written anew; a person sees no more

_DEEPEST = 3
"""TensorRT's phases below this one change too fast to be read."""


@dataclass
class _BuildPhase:
    """One of TensorRT's phases that has begun and not ended. count: its steps; done: those that are complete."""

    name: str
    parent: _BuildPhase | None
    count: int
    done: int = 0

    @property
    def depth(self) -> int:
        return 1 if self.parent is None else self.parent.depth + 1


class BuildShare:
    """Progress of a build, computed from TensorRT's phases, which may be reported from several threads.

    A phase counts for its step of the phase around it. The share never falls: a phase that ends before the step that it
    is of is complete counts on.
    """

    def __init__(self) -> None:
        self._phases: list[_BuildPhase] = []  # in the order in which they began
        self._share = 0.0

    def start(self, name: str, parent: str | None, count: int) -> None:
        around = next((phase for phase in reversed(self._phases) if phase.name == parent), None)
        self._phases.append(_BuildPhase(name, around, max(count, 1)))

    def step(self, name: str, number: int) -> None:
        """Counts a complete step. number: of the step, from 0."""
        for phase in reversed(self._phases):
            if phase.name == name:
                phase.done = min(number + 1, phase.count)
                self._look()
                return

    def finish(self, name: str) -> None:
        for index in reversed(range(len(self._phases))):
            if self._phases[index].name == name:
                del self._phases[index]
                return

    def share(self) -> float:
        """Returns the done share, from 0 to 1."""
        return self._share

    def part(self) -> str:
        """Returns the current phase: the innermost that is slow enough to read; "" before the first."""
        names = [phase.name for phase in self._phases if phase.depth <= _DEEPEST]
        return names[-1] if names else ""

    def _look(self) -> None:
        roots = [phase for phase in self._phases if phase.parent is None]
        if roots:
            self._share = max(self._share, self._of(roots[-1]))

    def _of(self, phase: _BuildPhase) -> float:
        inner = max((self._of(other) for other in self._phases if other.parent is phase), default=0.0)
        return min((phase.done + inner) / phase.count, 1.0)


class PhaseLines:
    """Progress as lines: each phase is named once, and steps at most every two seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps: dict[str, int] = {}
        self._named: set[str] = set()
        self._last = clock()

    def start(self, name: str, parent: str | None, count: int) -> str:
        """Returns the line to print; "" for none. So does `step`."""
        if parent is not None and len(self._steps) >= 2:
            return ""
        self._steps[name] = count
        text = f"{name} ({count} steps)" if count > 1 else name
        line = self._due(text, at_once=name not in self._named)
        self._named.add(name)
        return line

    def step(self, name: str, number: int) -> str:
        count = self._steps.get(name, 0)
        return self._due(f"{name} ({number + 1}/{count})", at_once=False) if count > 1 else ""

    def finish(self, name: str) -> None:
        self._steps.pop(name, None)

    def _due(self, text: str, *, at_once: bool) -> str:
        now = self._clock()
        if not at_once and now - self._last < _LINE_PERIOD_S:
            return ""
        self._last = now
        return text


class BuildMonitor:
    """TensorRT's progress monitor, called from any thread during a build."""

    def __init__(self, events: Events, clock: Callable[[], float] = time.monotonic) -> None:
        self._events, self._clock = events, clock
        self._lock = threading.Lock()
        self._share, self._lines = BuildShare(), PhaseLines(clock)
        self._due = clock()

    def phase_start(self, name: str, parent: str | None, count: int) -> None:
        with self._lock:
            self._share.start(name, parent, count)
            self._tell(self._lines.start(name, parent, count))

    def step_complete(self, name: str, number: int) -> bool:
        """Tells whether to go on: not for a parent that is gone."""
        with self._lock:
            self._share.step(name, number)
            self._tell(self._lines.step(name, number))
        return self._events.alive

    def phase_finish(self, name: str) -> None:
        with self._lock:
            self._share.finish(name)
            self._lines.finish(name)

    def _tell(self, line: str) -> None:
        now = self._clock()
        if line or now >= self._due:
            self._due = now + _SHARE_PERIOD_S
            self._events.share(self._share.part(), self._share.share(), line)
