"""Tests whether TensorRT fails on parts of a graph as it does on the whole."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trtsmith.converter.base.errors import BuildRefused
from trtsmith.converter.engine.builder import log as build_log
from trtsmith.converter.engine.builder.build_request import GRAPH_PHASES, PARSING, BuildRequest
from trtsmith.converter.engine.builder.explain import SAYS
from trtsmith.converter.engine.child.pool import Outcome, Pool
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.reduction.graph_cut import Cut, WholeGraph, closed, cut
from trtsmith.converter.engine.reduction.minimise import SMALL, Nodes, size
from trtsmith.importers.counted import counted

TRIAL_WORKER = "trtsmith.converter.engine.reduction.trial_worker"

JOBS = 2
"""The most trials at a time, if there are as many processors."""

SHORTEST_S = 2.0
"""The time that a trial gets at the least. TensorRT-RTX builds 100 small nodes in 0.3 s, and refuses most graphs sooner."""

PATIENCE = 3.0
"""So many times a trial's limit may pass without fewer nodes, while more than SMALL are left."""

SLOWER = 4.0
"""A trial's time limit in durations of the last failure: one that takes longer does not fail in that way."""


_PLACE = re.compile(r"\b([\w.]+\.(?:cpp|h|hpp|cc)):+(?:\w+:+)?(\d+)")
"""As TensorRT names a place in its sources: "At graphScope.cpp::analyze::471", "at /_src/x.cpp:12", "[shape.cpp:175:"."""

_REASON = re.compile(r"(?:Error is:|Assertion failed:)(.*?)(?:$|\bIn \w+ at\b)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]{3,}")
_FUNCTION = re.compile(r"\[(import\w+)\]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\S*[\d_/.]\S*")
"""What may be a name or a number in a reason."""

Signature = frozenset[tuple[str, ...]]
"""One entry for each reason that was given."""


def signature_of(error: BuildRefused | ChildDied) -> Signature:
    """Identifies a failure: by places in TensorRT's sources and the reason's words, without names and sizes."""
    if isinstance(error, ChildDied):
        return frozenset({("ended", error.phase, "late" if error.timed_out else error.how)})
    said = (problem.what.partition(SAYS)[2] or problem.what for problem in error.problems)
    return frozenset(_of_message(message) for message in said)


def _of_message(message: str) -> tuple[str, ...]:
    places = sorted({f"{file}:{line}" for file, line in _PLACE.findall(message)})
    found = _REASON.search(message)
    reason = _QUOTED.sub(" ", found[1] if found else "" if places else message)
    words = _WORD.findall(reason)
    return (*places, *_FUNCTION.findall(message), " ".join(words))


def same(one: Signature, other: Signature) -> bool:
    """Tells whether two failures share a reason: a smaller graph may have fewer."""
    return not one.isdisjoint(other)


def nodes_named(error: BuildRefused | ChildDied) -> str:
    """Returns the text to search for names of nodes and values: only the end of a log, since it names every node."""
    if isinstance(error, ChildDied):
        last = build_log.last_node(error.log, parsing=error.phase == PARSING)
        return f"{last or ''}\n{build_log.tail(error.log)}"
    return "\n".join(f"{problem.what}\n{problem.where}" for problem in error.problems)


@dataclass
class Trials:
    """The trials of one reduction. end: on time.monotonic(). say: gets a line after each success.

    large_end: the end while more than SMALL nodes are left, which nobody reads. patience_s: the least time that may pass
    without fewer then.
    request: what all of them have in common. folder: of the model's file, or of links to it; trials are written there.
    """

    subject: WholeGraph
    request: BuildRequest
    folder: Path
    pool: Pool
    wanted: Signature
    end: float
    large_end: float
    patience_s: float
    slowest_s: float
    say: Callable[[str], None]
    done: int = 0
    smallest: Cut | None = None
    error: BuildRefused | ChildDied | None = None
    _known: dict[Nodes, bool] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)
    _last: float = field(default_factory=time.monotonic)

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._until()

    def _until(self) -> float:
        if self.smallest is not None and size(self.smallest.nodes) <= SMALL:
            return self.end
        return min(self.end, self.large_end, self._last + max(self.patience_s, PATIENCE * self.slowest_s))

    def restart(self, request: BuildRequest) -> None:
        """Forgets earlier trials, which were of another request."""
        self.request = request
        self._known.clear()

    def tried(self, sets: Sequence[Nodes]) -> Nodes | None:
        """Returns the first of these sets of nodes, as it can be cut out, that fails as the whole does; None if none does.

        At once where one is known to; the sets are tried in turn otherwise, some at a time.
        """
        if self.is_late:
            return None
        cuts: dict[Nodes, Cut] = {}
        order: list[Nodes] = []
        for nodes in sets:
            whole = closed(self.subject, nodes)
            if whole not in order:
                order.append(whole)
        pending: deque[tuple[Nodes, str]] = deque()
        for nodes in order:
            if self._known.get(nodes):
                break  # those before it may fail, too, and are smaller
            if nodes not in self._known:
                cuts[nodes] = cut(self.subject, nodes)
                pending.append((nodes, self._request(cuts[nodes], len(pending))))
        asked = time.monotonic()
        for nodes, outcome in self.pool.run(pending, self.slowest_s, end=self._until()):
            fails = self._fails(outcome)
            if fails is None:
                continue  # no time was left
            self._known[nodes] = fails
            self.done += 1
            if fails:
                self._found(cuts[nodes], outcome.error, time.monotonic() - asked)
                pending.clear()  # what is under way is waited for: a worker that is killed costs more
        return next((nodes for nodes in order if self._known.get(nodes)), None)

    def _fails(self, outcome: Outcome) -> bool | None:
        error = outcome.error
        if isinstance(error, BuildRefused):
            return same(signature_of(error), self.wanted)
        if isinstance(error, ChildDied):
            return error.phase in GRAPH_PHASES and same(signature_of(error), self.wanted)
        return False if error is None or hasattr(error, "problems") else None

    def _found(self, found: Cut, error: object, seconds: float) -> None:
        assert isinstance(error, BuildRefused | ChildDied)
        if not (isinstance(error, ChildDied) and error.timed_out):
            self.slowest_s = max(SHORTEST_S, SLOWER * seconds)
        if self.smallest is None or size(found.nodes) < size(self.smallest.nodes):
            self.smallest, self.error, self._last = found, error, time.monotonic()
            total, took = len(self.subject.table.entries), self._last - self._started
            self.say(
                f"{size(found.nodes)} of {counted(total, 'node')} fail ({self.done} builds, {took:.0f} s)"
            )

    def _request(self, part: Cut, number: int) -> str:
        """Written as a file of its own, which refers to the weights in the model's."""
        path = self.folder / f"trial-{number}.onnx"
        data = part.proto.SerializeToString()
        with open(path, "wb") as stream:
            stream.write(data)
        names = {node.name for node in part.proto.graph.node}
        names |= {self.subject.table.entries[number].node.name for number in part.nodes if number >= 0}
        wanted = replace(
            self.request,
            onnx_path=path,
            engine_path=self.folder / os.devnull,
            plugins=tuple(use for use in self.request.plugins if use.node in names),
            profiles=tuple(p for p in part.profiles if p),
        )
        return wanted.to_text()
