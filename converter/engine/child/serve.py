"""The child side of pool.py: answers each request with one `result` or `problems` event.

A worker module ends so, and is then a module for `run_child` and for `Pool`:

    if __name__ == "__main__":
        serve(sys.argv[1:], run)
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from trtsmith.converter.base.errors import EXIT_FAILED, TrtsmithError
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.operators.used_files import note_libraries
from trtsmith.importers.problem import Problem

_PR_SET_PDEATHSIG = 1  # of prctl.h

Work = Callable[[str, Events, Path], Mapping[str, Any]]
"""(the request's text, events, the log's path) -> the payload of `result`, plain data for JSON."""


def serve(
    arguments: Sequence[str],
    work: Work,
    *,
    setup: Work | None = None,
    spent: Callable[[], bool] | None = None,
    end: Callable[[], None] | None = None,
) -> NoReturn:
    """Answers each request, a line of JSON on the descriptor arguments[2], until that is closed.

    arguments: descriptors of the events and of the requests, with the log's path between them.
    setup: does the first, for which the pool's `setup` is the text. spent: asked after each, whether this process can take
    no further one. end: called when there are no more; the process then ends as Python does. Without it nothing is torn
    down: TensorRT and CUDA have nothing left to do for us, and could only crash.
    """
    _die_with_parent(int(arguments[0]))
    events, log_path = Events(int(arguments[0])), Path(arguments[1])
    events.send("ready")
    with os.fdopen(int(arguments[2]), "rb") as lines:
        for line in lines:
            _answer(json.loads(line), setup or work, events, log_path, spent or (lambda: False))
            setup = None
    if end is not None:
        end()
        raise SystemExit
    os._exit(0)


def _answer(request: str, work: Work, events: Events, log_path: Path, spent: Callable[[], bool]) -> None:
    """Send what came of one request, after all that was printed meanwhile."""
    try:
        try:
            result = dict(work(request, events, log_path))
        finally:
            note_libraries()
    except TrtsmithError as error:
        _send_problems(events, error.problems, error.exit_code, spent(), type(error).__name__)
    except Exception as error:  # the last line of defence: our mistake must not look like TensorRT's
        with open(log_path, "a") as log:
            log.write(traceback.format_exc())
        lines = traceback.extract_tb(error.__traceback__)
        where = f"{Path(lines[-1].filename).name}, line {lines[-1].lineno}"
        problem = Problem(
            f"trtsmith failed: {type(error).__name__}: {error}",
            where,
            "no such error",
            "report it with the model's log",
        )
        _send_problems(events, (problem,), EXIT_FAILED, spent())
    else:
        _send(events, "result", result=result, spent=spent())


def _send(events: Events, event: str, **values: Any) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    events.send(event, **values)


def _send_problems(
    events: Events, problems: Sequence[Problem], exit_code: int, spent: bool, kind: str = ""
) -> None:
    shown = [problem.to_json() for problem in problems]
    _send(events, "problems", exit_code=exit_code, problems=shown, spent=spent, kind=kind)


def _die_with_parent(events: int) -> None:
    """Ask Linux to kill this process when its parent dies; elsewhere a worker looks at `events.alive`.

    events: the pipe that the parent reads: one that has died before it could be asked has closed it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        reader = select.poll()
        reader.register(events, 0)
        if reader.poll(0):  # POLLERR, which comes unasked
            os._exit(128 + signal.SIGKILL)
