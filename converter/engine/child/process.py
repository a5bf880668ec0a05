"""Runs a module in a child process, and returns its result or a description of its death.

The child is `python -m MODULE request.json FD LOG`; converter/engine/child/serve.py is its side. It writes its events as
JSON lines to the pipe FD, since TensorRT and plugins print to stdout and stderr as they like; those two go to LOG.
For many calls of one module there is converter/engine/child/pool.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.child.environment import child_environment
from trtsmith.converter.engine.child.events import tell
from trtsmith.converter.engine.child.exits import describe_exit
from trtsmith.converter.engine.child.session import end_session, start_session
from trtsmith.converter.model.errors import (
    EXIT_USAGE,
    BuildRefused,
    ConversionError,
    InvalidModelError,
    TrtsmithError,
    UsageError,
)
from trtsmith.converter.model.process.scratch_folder import ScratchFolder
from trtsmith.importers.problem import Problem

Progress = Callable[[str], None]


class ChildDied(Exception):  # noqa: N818  it is an ending as much as an error: the caller says what it means
    """The child ended without a result and without a problem.

    how:       such as "died of SIGSEGV (...)" or "did not finish within 5 s".
    phase:     the last step that it announced.
    log:       all that it, TensorRT and its libraries printed.
    timed_out: whether it was killed here because its time was up.
    code:      its exit code, negative for a signal; None where it was killed here.
    """

    def __init__(self, how: str, phase: str, log: str, *, timed_out: bool, code: int | None = None) -> None:
        super().__init__(f"{how} while {phase}")
        self.how = how
        self.phase = phase
        self.log = log
        self.timed_out = timed_out
        self.code = code


def run_child(
    module: str,
    request_json: str,
    flavour: str,
    *,
    timeout_s: float | None = None,
    log_path: Path | None = None,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Run `module` with a request; the payload of its `result` event.

    flavour:     the TensorRT that the child will import, which decides its environment.
    log_path:    an absolute path to keep the log at; None drops it in the end.
    on_progress: gets one short line for each step.

    Raises UsageError or ConversionError with the problems that the child sent, MemoryError where it ran out of the address
    space that is allowed (ulimit -v), and ChildDied where it ended otherwise without a word or ran out of time. Nothing of
    the child is left then: Ctrl-C ends it too.
    """
    with ScratchFolder("child") as folder:
        work = Path(folder)
        log = log_path or work / "child.log"
        log.write_bytes(b"")
        request = work / "request.json"
        request.write_text(request_json)
        return _run(module, request, child_environment(flavour, work), log, timeout_s, on_progress or _ignore)


def _run(
    module: str,
    request: Path,
    environment: dict[str, str],
    log_path: Path,
    timeout_s: float | None,
    on_progress: Progress,
) -> dict[str, Any]:
    run_folder = request.parent / "run"
    run_folder.mkdir()  # an empty working folder: python -m puts it first on the module path
    read_end, write_end = os.pipe()
    # The child's stdout, its stderr and its logger all append to one file, in the order in which they speak.
    with os.fdopen(read_end, "rb", buffering=0) as events, open(log_path, "ab") as log:
        try:
            child = start_session(
                [sys.executable, "-W", "ignore", "-m", module, request, str(write_end), log_path],
                env=environment,
                cwd=run_folder,
                stdout=log,
                stderr=log,
                pass_fds=(write_end,),
            )
        finally:
            os.close(write_end)
        last: dict[str, Any] = {}
        phase = "starting Python"
        timed_out = False
        try:
            for event in _read_events(events.fileno(), timeout_s):
                if event["event"] in ("result", "problems"):
                    last = event
                    continue
                phase = event.get("phase", phase)
                if event["event"] == "progress":
                    tell(event, on_progress)
            if last:  # what is left to do in the child is to tear TensorRT down
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=10)
            else:
                child.wait()
        except TimeoutError:
            timed_out = True
        finally:
            end_session(child)
    if not timed_out and last.get("event") == "result":
        payload: dict[str, Any] = last["result"]
        return payload
    if not timed_out and last.get("event") == "problems":
        raise error_of(last)
    said = log_path.read_text(errors="replace")
    if "std::bad_alloc" in said and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        raise MemoryError("std::bad_alloc in the process that runs TensorRT")
    if timed_out:
        raise ChildDied(f"did not finish within {timeout_s:g} s", phase, said, timed_out=True)
    raise ChildDied(describe_exit(child.returncode), phase, said, timed_out=False, code=child.returncode)


def _read_events(descriptor: int, timeout_s: float | None) -> Iterator[dict[str, Any]]:
    """The child's events until it closes the pipe. Raises TimeoutError when the time is up."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and (left <= 0 or not selector.select(left)):
                raise TimeoutError
            data = os.read(descriptor, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            yield from (json.loads(line) for line in lines if line)


def error_of(event: Mapping[str, Any]) -> TrtsmithError:
    """What a `problems` event says."""
    problems = [Problem(**problem) for problem in event["problems"]]
    for kind in (InvalidModelError, BuildRefused):
        if event.get("kind") == kind.__name__:
            return kind(problems)
    return UsageError(problems) if event["exit_code"] == EXIT_USAGE else ConversionError(problems)


def _ignore(text: str) -> None:
    del text
