"""The child's side of converter/engine/child/process.py: one request in, one `result` or `problems` event out.

A worker module ends so, and is then a module that `run_child` can run:

    if __name__ == "__main__":
        serve(sys.argv[1:], run)
"""

from __future__ import annotations

import ctypes
import os
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

Work = Callable[[str, Events, Path], Mapping[str, Any]]
"""(the request's JSON, events, the log's path) -> the payload of `result`, plain data for JSON."""


def serve(arguments: Sequence[str], work: Work) -> NoReturn:
    """Do the work and end the process at once, with 0 or the exit code of the problems that were sent.

    Nothing is torn down: TensorRT and CUDA have nothing left to do for us, and could only crash.
    """
    code = answer(arguments, work)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def answer(arguments: Sequence[str], work: Work) -> int:
    """Do what the file arguments[0] asks for, send what came of it to the descriptor arguments[1]; the exit code."""
    _die_with_parent()
    events = Events(int(arguments[1]))
    log_path = Path(arguments[2])
    try:
        result = work(Path(arguments[0]).read_text(), events, log_path)
    except TrtsmithError as error:
        _send_problems(events, error.problems, error.exit_code)
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
        _send_problems(events, (problem,), EXIT_FAILED)
        return EXIT_FAILED
    events.send("result", result=dict(result))
    return 0


def _send_problems(events: Events, problems: Sequence[Problem], exit_code: int) -> None:
    events.send("problems", exit_code=exit_code, problems=[problem.to_json() for problem in problems])


def _die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies; elsewhere a worker looks at `events.alive`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
