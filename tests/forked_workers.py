"""Starts workers as forks of one process that has imported what they import.

A worker that exports PyTorch models takes 5 s to import PyTorch and to collect the exporter's translations, and tests of
saved programs and factories start thirty. One that tests plugins takes 0.6 s, and a library of faults ends 75 of them. A
fork ends without the clean-up of C++ libraries.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT
from trtsmith.converter.engine.child import pool
from trtsmith.converter.engine.child.session import start_session

WORKERS = ("trtsmith.converter.convert.pytorch.export_worker", "trtsmith.converter.plugin.test_worker")
IMPORTS = "tests.worker_imports"


class Forked:
    """What converter/engine/child uses of subprocess.Popen, of a fork."""

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return self._process.exitcode


class Passed:
    """A descriptor in the arguments of a fork: there it is the number of its copy."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _number, (DupFd(self._descriptor),)


def _number(copy: Any) -> int:
    number: int = copy.detach()
    return number


def fork(command: Sequence[str | Path], **options: Any) -> Any:
    """As start_session; the process is a fork if the command runs one of WORKERS."""
    worker = next((word for word in command if word in WORKERS), None)
    if worker is None:
        return start_session(command, **options)
    context = multiprocessing.get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:  # for the server, if it does not run yet
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        context.set_forkserver_preload([IMPORTS])
        forkserver.ensure_running()
    *_, events, log_path, requests = command
    arguments = (Passed(int(events)), str(log_path), Passed(int(requests)))
    log = Passed(options["stdout"].fileno())
    begun, begins = context.Pipe(duplex=False)
    process = context.Process(
        target=_become,
        args=(worker, arguments, dict(options["env"]), str(options["cwd"]), log, begins),
        daemon=True,
    )
    process.start()
    begins.close()
    with begun, suppress(EOFError):
        assert begun.recv(), f"{IMPORTS} was not imported"
    return Forked(process)


def _become(
    worker: str,
    arguments: tuple[int, str, int],
    environment: dict[str, str],
    folder: str,
    log: int,
    begins: Any,
) -> None:
    """What `python -W ignore -m worker` does with these arguments, in this environment and folder."""
    os.setsid()
    begins.send(IMPORTS in sys.modules)
    begins.close()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [folder, *environment["PYTHONPATH"].split(os.pathsep)]
    sys.argv[1:] = map(str, arguments)
    warnings.simplefilter("ignore")
    runpy.run_module(worker, run_name="__main__", alter_sys=True)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "start_session", fork)
