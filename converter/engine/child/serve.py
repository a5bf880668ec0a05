"""The child side of process.py and pool.py: answers each request with one `result` or `problems` event.

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

from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.model.errors import EXIT_FAILED, TrtsmithError
from trtsmith.importers.problem import Problem

_PR_SET_PDEATHSIG = 1  # of prctl.h

MANY = "-"
"""In the place of the request's file: requests come from a pipe, until it is closed."""

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
    """Do the work and end the process at once, with 0 or the exit code of the problems that were sent.

    Of many requests, setup: does the first, for which the pool's `setup` is the text. spent: asked after each, whether
    this process can take no further one. end: called when there are no more; the process then ends as Python does.
    Without it nothing is torn down: TensorRT and CUDA have nothing left to do for us, and could only crash.
    """
    _die_with_parent(int(arguments[1]))
    if arguments[0] == MANY:
        _answer_all(arguments, work, setup, spent)
        code = 0
    else:
        code = answer(arguments, work)
    sys.stdout.flush()
    sys.stderr.flush()
    if end is not None:
        end()
        raise SystemExit(code)
    os._exit(code)


def answer(arguments: Sequence[str], work: Work) -> int:
    """Do what the file arguments[0] asks for, send what came of it to the descriptor arguments[1]; the exit code."""
    events = Events(int(arguments[1]))
    return _answer(Path(arguments[0]).read_text(), work, events, Path(arguments[2]), lambda: False)


def _answer_all(
    arguments: Sequence[str], work: Work, setup: Work | None, spent: Callable[[], bool] | None
) -> None:
    """Requests are lines of JSON, each a text, on the descriptor arguments[3]."""
    events, log_path = Events(int(arguments[1])), Path(arguments[2])
    events.send("ready")
    with os.fdopen(int(arguments[3]), "rb") as lines:
        for line in lines:
            _answer(json.loads(line), setup or work, events, log_path, spent or (lambda: False))
            setup = None
            sys.stdout.flush()
            sys.stderr.flush()


def _answer(request: str, work: Work, events: Events, log_path: Path, spent: Callable[[], bool]) -> int:
    """Send what came of one request. Its exit code, were it the only one."""
    try:
        result = dict(work(request, events, log_path))
    except TrtsmithError as error:
        _send_problems(events, error.problems, error.exit_code, spent(), type(error).__name__)
        return error.exit_code
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
        return EXIT_FAILED
    events.send("result", result=result, spent=spent())
    return 0


def _send_problems(
    events: Events, problems: Sequence[Problem], exit_code: int, spent: bool, kind: str = ""
) -> None:
    shown = [problem.to_json() for problem in problems]
    events.send("problems", exit_code=exit_code, problems=shown, spent=spent, kind=kind)


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
