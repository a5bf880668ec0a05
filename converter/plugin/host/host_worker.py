"""A plugin library in a process of its own: asked, and started again when a plugin ended it or hangs."""

from __future__ import annotations

import base64
import json
import os
import pickle
from pathlib import Path
from types import TracebackType
from typing import Any

from trtsmith.converter.engine.child.exits import signal_name
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

_MALLOC = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
"""Freed memory is overwritten at once, so that its use after that shows."""

SLOWEST_START_S = 60.0
"""Time that Python and the library get to start, however short the limit for a check is."""


class WorkerDiedError(Exception):
    """The child ended, or did not answer in time; reads as the end of a sentence about the plugin."""


class WorkerTimeoutError(WorkerDiedError):
    """The child did not answer in time, and was ended."""


class LibraryWorker:
    """A child with a library loaded. ask() starts one where there is none."""

    def __init__(self, library: Path, host: Path | None, timeout_s: float) -> None:
        self._library = library
        self._timeout_s = timeout_s
        files = {"library": os.path.abspath(library), "host": host and os.path.abspath(host)}
        tunables = filter(None, (os.environ.get("GLIBC_TUNABLES"), _MALLOC))
        self._pool = Pool(
            "trtsmith.converter.plugin.test_worker",
            setup=json.dumps(files),
            environment={"GLIBC_TUNABLES": ":".join(tunables)},
            start_s=max(timeout_s, SLOWEST_START_S),
        )

    def __enter__(self) -> LibraryWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def start(self) -> dict[str, Any]:
        """The library's description, by a child that has loaded it.

        Raises the child's own error, or UsageError where loading ended the child.
        """
        try:
            described = self._pool.start()
        except ChildDied as death:
            raise UsageError(
                Problem(
                    f"loading the library {_ending(death, 'return')}",
                    str(self._library),
                    "a library that can be loaded",
                    "load it in a debugger, and check the libraries that it needs with ldd",
                )
            ) from death
        return {**described, "path": str(self._library)}

    def restart(self) -> None:
        """End the child; the next question starts another."""
        self._pool.restart()

    def ask(self, request: tuple[int, str, object]) -> dict[str, Any]:
        """Raises WorkerDiedError where no answer comes."""
        self.start()
        try:
            return self._pool.ask(encode(request), self._timeout_s)
        except ChildDied as death:
            raise _death(death, "return") from death

    def finish(self) -> None:
        """Let the child unload the library and end. Raises WorkerDiedError where that ends it otherwise."""
        self.start()
        try:
            self._pool.finish(self._timeout_s)
        except ChildDied as death:
            raise _death(death, "end") from death


def encode(request: tuple[int, str, object]) -> str:
    """A request as text. It may hold arrays."""
    return base64.b64encode(pickle.dumps(request, protocol=5)).decode()


def decode(text: str) -> Any:
    """Reads what the parent sent, in the child; what comes back from it is never unpickled."""
    return pickle.loads(base64.b64decode(text))


def _death(death: ChildDied, what: str) -> WorkerDiedError:
    kind = WorkerTimeoutError if death.timed_out else WorkerDiedError
    return kind(_ending(death, what))


def _ending(death: ChildDied, what: str) -> str:
    """What the child ended with, and the last thing that it said. what: that it did not do where its time was up."""
    if death.timed_out:
        return death.how.replace("finish", what)
    if death.code is None:
        how = "closed its pipe"
    elif death.code < 0:
        how = f"ended the process with {signal_name(-death.code)}"
    else:
        how = f"ended the process with exit code {death.code}"
    said = [line for line in death.log.splitlines() if line.strip()]
    return how + (f", which said: {' / '.join(said[-3:])}" if said else "")
