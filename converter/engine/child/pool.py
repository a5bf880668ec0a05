"""Runs many calls in long-lived workers, so that each worker imports its modules once.

A worker is `python -m MODULE FD LOG REQUESTS`, in a session of its own; converter/engine/child/serve.py is its side. It
ends with this process, however that ends. One that dies or takes too long costs the request that it had, which says how
the worker died; another worker takes its place.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from trtsmith.converter.base.errors import TrtsmithError
from trtsmith.converter.base.process.package_folders import PACKAGE_ROOT
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.engine.child.events import error_of, tell
from trtsmith.converter.engine.child.exits import ChildDied, describe_exit
from trtsmith.converter.engine.child.session import end_session, start_session
from trtsmith.converter.operators.sources import VARIABLE
from trtsmith.importers.registry import packages_in_force

START_S = 120.0
"""For a worker's imports and its setup."""

END_S = 10.0
"""For what a process still does after it closed its pipe."""

_PYTHON = (sys.executable, "-W", "ignore", "-m")

Key = TypeVar("Key")
Payload = dict[str, Any]


class NotDone(Exception):  # noqa: N818  nothing went wrong with the request
    """The time limit of all requests ended before this one was answered."""


@dataclass(frozen=True)
class Outcome:
    """The result of one request: the payload of the worker's `result`, or an error.

    said: what the worker and its libraries printed meanwhile.
    """

    found: Payload | None = None
    error: TrtsmithError | ChildDied | NotDone | None = None
    said: str = ""

    def get(self) -> Payload:
        """Returns the payload, or raises the error."""
        if self.error is not None:
            raise self.error
        assert self.found is not None
        return self.found


class _State(Enum):
    STARTING = "starting Python"
    SETUP = "setting up"
    IDLE = "waiting"
    BUSY = "working"


class _Worker:
    """One child. key: of the request that it has in hand; phase: the last step that it announced; setup: its answer."""

    def __init__(
        self, module: str, environment: Mapping[str, str], folder: Path, log_path: Path, start_s: float | None
    ) -> None:
        self.log_path = log_path
        self.state = _State.STARTING
        self.phase = _State.STARTING.value
        self.setup: Payload = {}
        self.key: Any = None
        self.until: float | None = None
        self.limit_s: float | None = None
        self._waiting = memoryview(b"")  # of a request, for room in the pipe
        self._pending = b""  # of an event
        request_read, self.requests = os.pipe()
        self.events, event_write = os.pipe()
        os.set_blocking(self.requests, False)
        with open(log_path, "wb") as made:
            made.truncate()
        try:
            with open(log_path, "ab") as log:  # all who write to it append, so that it can be emptied
                self.process = start_session(
                    [*_PYTHON, module, str(event_write), log_path, str(request_read)],
                    env=environment,
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                    pass_fds=(event_write, request_read),
                )
        finally:
            os.close(event_write)
            os.close(request_read)
        self._limit(start_s)

    def _limit(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.until = None if limit_s is None else time.monotonic() + limit_s

    def give(self, state: _State, request: str, limit_s: float | None) -> None:
        os.truncate(self.log_path, 0)
        self.state, self.phase = state, state.value
        self._limit(limit_s)
        self._waiting = memoryview(json.dumps(request).encode() + b"\n")  # its parts are no copies
        self.write()

    def rest(self) -> None:
        self.state, self.key, self.until = _State.IDLE, None, None

    @property
    def has_more(self) -> bool:
        return bool(self._waiting)

    def write(self) -> None:
        """Writes as much of the request as fits into the pipe."""
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self.requests, self._waiting) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # it died; its end of the other pipe says so
            self._waiting = memoryview(b"")

    def read(self) -> list[dict[str, Any]] | None:
        """The events that have come; None at the end of the pipe."""
        data = os.read(self.events, 1 << 16)
        if not data:
            return None
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [json.loads(line) for line in lines if line]

    def finish(self, limit_s: float) -> None:
        """Close the worker's requests and wait for its exit. ChildDied unless its exit code is 0."""
        os.truncate(self.log_path, 0)
        self.phase = "ending"
        self._limit(limit_s)
        self._close_requests()
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise self.death(timed_out=True) from None
        if code != 0:
            raise self.death(timed_out=False)

    def end(self) -> None:
        """Kill it, unless it has ended, close the pipes, and remove its log."""
        end_session(self.process)
        self._close_requests()
        os.close(self.events)
        self.log_path.unlink(missing_ok=True)

    def _close_requests(self) -> None:
        if self.requests >= 0:
            os.close(self.requests)
            self.requests = -1

    def death(self, *, timed_out: bool) -> ChildDied:
        """How the worker ended, after its pipe closed or its time was up."""
        if timed_out:
            end_session(self.process)
            how = f"did not finish within {self.limit_s:g} s"
            return ChildDied(how, self.phase, self.said(), timed_out=True)
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return ChildDied("closed its pipe", self.phase, self.said(), timed_out=False)
        return ChildDied(describe_exit(code), self.phase, self.said(), timed_out=False, code=code)

    def said(self) -> str:
        """What the worker and its libraries printed since the last request."""
        return self.log_path.read_text(errors="replace")


class Pool:
    """A pool of workers of one module, as a context manager that kills all workers at the end.

    size:        workers at a time, started when there is something for them to do.
    flavour:     the TensorRT that they import, which decides their environment.
    setup:       the first request of every worker, for `serve(setup=...)`; None: there is none.
    environment: variables on top of the inherited ones. paths: folders that Python looks for modules in.
    start_s:     the time that a worker gets to be ready for its first request; None: any.
    folder:      where its private folder is made; None: where temporary files are.

    A worker that dies before it is ready would do so again: no other is started then, and the requests that are left have
    its error.
    """

    def __init__(
        self,
        module: str,
        size: int = 1,
        *,
        flavour: str = "tensorrt",
        setup: str | None = None,
        environment: Mapping[str, str] | None = None,
        paths: Sequence[Path] = (),
        start_s: float | None = START_S,
        folder: Path | None = None,
    ) -> None:
        self._module = module
        self._size = size
        self._setup = setup
        self._start_s = start_s
        self._workers: list[_Worker] = []
        self._failure: TrtsmithError | ChildDied | None = None  # of a worker that did not get ready
        self._numbers = itertools.count()
        self._folder = ScratchFolder("pool", folder)
        work = Path(self._folder.name)
        (work / "run").mkdir()  # an empty working folder: python -m puts it first on the module path
        self._environment = child_environment(flavour, work) | dict(environment or {})
        path = (*map(str, paths), self._environment["PYTHONPATH"])
        self._environment["PYTHONPATH"] = os.pathsep.join(path)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills the workers, and removes the files that they left."""
        self.restart()
        self._folder.cleanup()

    def processes(self) -> list[int]:
        """Returns the current workers, for observers in other threads."""
        return [worker.process.pid for worker in list(self._workers)]

    def restart(self) -> None:
        """Kills the workers; the next request starts others."""
        while self._workers:
            self._workers.pop().end()

    def finish(self, timeout_s: float) -> None:
        """Lets each worker end by itself, as `serve(end=...)` defines. Raises ChildDied if one ends otherwise."""
        try:
            for worker in self._workers:
                worker.finish(timeout_s)
        finally:
            self.restart()

    def start(self) -> Payload:
        """Starts a worker if none is ready, and returns the answer of its setup. Raises as `ask` does."""
        self._forget_failure()
        if not self._in(_State.IDLE):
            self._begin()
        while not self._in(_State.IDLE):
            deque(self._listen(None, None), maxlen=0)  # nothing was asked: there are no outcomes
            if self._failure is not None:
                raise self._failure
        return self._in(_State.IDLE)[0].setup

    def ask(
        self,
        request: str,
        timeout_s: float | None = None,
        on_progress: Callable[[str], None] | None = None,
        log_path: Path | None = None,
    ) -> Payload:
        """Returns the payload that answers one request. log_path: gets the output of the worker and its libraries.

        Raises UsageError or ConversionError with the problems that the worker sent, and ChildDied where it ended without
        a word or its time was up.
        """

        def hear(_: None, event: Mapping[str, Any]) -> None:
            if on_progress is not None and event["event"] == "progress":
                tell(event, on_progress)

        ((_, outcome),) = self.run(deque([(None, request)]), timeout_s, on_event=hear)
        if log_path is not None:
            log_path.write_text(outcome.said, encoding="utf-8")
        return outcome.get()

    def run(
        self,
        pending: deque[tuple[Key, str]],
        timeout_s: float | None = None,
        *,
        end: float | None = None,
        on_event: Callable[[Key, Mapping[str, Any]], None] | None = None,
    ) -> Iterator[tuple[Key, Outcome]]:
        """Yields the outcome of each (key, request) as it finishes. `pending` may grow meanwhile.

        timeout_s: for one request, from when a worker that is ready has it. end: on time.monotonic(); what is not
        answered then is NotDone. on_event: gets every other event of a worker, with the key of its request.
        """
        self._forget_failure()
        try:
            while pending or self._in(_State.BUSY):
                if end is not None and time.monotonic() >= end:
                    break
                failure = self._failure
                if failure is not None and not self._workers:
                    yield pending.popleft()[0], Outcome(error=failure, said=getattr(failure, "log", ""))
                    continue
                for worker in self._in(_State.IDLE)[: len(pending)]:
                    worker.key, request = pending.popleft()
                    worker.give(_State.BUSY, request, timeout_s)
                wanted = len(pending) - len(self._in(_State.STARTING, _State.SETUP))
                for _ in range(0 if failure else min(wanted, self._size - len(self._workers))):
                    self._begin()
                yield from self._listen(end, on_event)
            late = [worker.key for worker in self._in(_State.BUSY)]
        finally:  # whoever reads may have gone away
            for worker in self._in(_State.BUSY):
                self._drop(worker)
        for key in (*late, *(key for key, _ in pending)):
            yield key, Outcome(error=NotDone("no time was left"))

    def _forget_failure(self) -> None:
        self._failure = None

    def _in(self, *states: _State) -> list[_Worker]:
        return [worker for worker in self._workers if worker.state in states]

    def _begin(self) -> None:
        work = Path(self._folder.name)
        log_path = work / f"worker-{next(self._numbers)}.log"
        self._workers.append(_Worker(self._module, self._environment, work / "run", log_path, self._start_s))

    def _drop(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()

    def _listen(
        self, end: float | None, on_event: Callable[[Any, Mapping[str, Any]], None] | None
    ) -> Iterator[tuple[Any, Outcome]]:
        """Wait until a worker says something, ends, or has no time left; the outcomes that this gives."""
        now = time.monotonic()
        limits = [limit for limit in (end, *(worker.until for worker in self._workers)) if limit is not None]
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.events, selectors.EVENT_READ, worker)
                if worker.has_more:
                    selector.register(worker.requests, selectors.EVENT_WRITE, worker)
            ready = selector.select(max(0.0, min(limits) - now) if limits else None)
        for chosen, what in ready:
            worker = chosen.data
            if what == selectors.EVENT_WRITE:
                worker.write()
            elif (events := worker.read()) is None:
                yield from self._died(worker, timed_out=False)
            else:
                for event in events:
                    yield from self._heard(worker, event, on_event)
        now = time.monotonic()
        for worker in [w for w in self._workers if w.until is not None and w.until <= now]:
            yield from self._died(worker, timed_out=True)

    def _heard(
        self,
        worker: _Worker,
        event: Mapping[str, Any],
        on_event: Callable[[Any, Mapping[str, Any]], None] | None,
    ) -> Iterator[tuple[Any, Outcome]]:
        if event["event"] == "ready":
            if self._setup is None:
                worker.rest()
            else:
                worker.give(_State.SETUP, self._setup, worker.limit_s)
        elif event["event"] not in ("result", "problems"):
            worker.phase = event.get("phase", worker.phase)
            if on_event is not None and worker.state is _State.BUSY:
                on_event(worker.key, event)
        else:
            error = error_of(event) if event["event"] == "problems" else None
            if worker.state is _State.SETUP:
                self._failure, worker.setup = error, event.get("result", {})
            else:
                yield worker.key, Outcome(event.get("result"), error, worker.said())
            if event["spent"] or self._failure is not None:
                self._drop(worker)
            else:
                worker.rest()

    def _died(self, worker: _Worker, *, timed_out: bool) -> Iterator[tuple[Any, Outcome]]:
        death = worker.death(timed_out=timed_out)
        key, state = worker.key, worker.state
        self._drop(worker)
        if state is _State.BUSY:
            yield key, Outcome(error=death, said=death.log)
        elif state is not _State.IDLE:
            self._failure = death


def child_environment(flavour: str, work: Path) -> dict[str, str]:
    """Returns the inherited environment, with this package importable and TensorRT-RTX's library by its plain name.

    Its TRTSMITH_OPS names the operator packages that are in force here.

    work: a private folder, which must outlive the child. The parser of TensorRT-RTX 1.7.1 opens
    `libtensorrt_rtx.so` when it meets a plugin, and calls std::terminate if it finds none; the wheel has the
    library as `libtensorrt_rtx.so.1` only.
    """
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if specs := [package.spec for package in packages_in_force() if package.spec]:
        environment[VARIABLE] = os.pathsep.join(specs)
    _prepend(environment, "PYTHONPATH", PACKAGE_ROOT)
    if flavour == "tensorrt_rtx":
        library = _rtx_library()
        if library is not None:
            names = work / "lib"
            names.mkdir()
            (names / "libtensorrt_rtx.so").symlink_to(library)
            _prepend(environment, "LD_LIBRARY_PATH", names)
    return environment


def _rtx_library() -> Path | None:
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    return None if folder is None else next(iter(sorted(folder.glob("libtensorrt_rtx.so.*"))), None)


def _prepend(environment: dict[str, str], name: str, folder: Path) -> None:
    before = environment.get(name)
    environment[name] = f"{folder}{os.pathsep}{before}" if before else str(folder)
