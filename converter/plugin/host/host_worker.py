"""Runs a plugin library in a child process, which is restarted if a plugin crashes or hangs."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.engine.child.exits import signal_name
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.converter.engine.child.process import ChildDied

_MALLOC = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
"""Freed memory is overwritten at once, so that its use after that shows."""

SLOWEST_START_S = 60.0
"""Time that Python and the library get to start, however short the limit for a check is."""


class WorkerDiedError(Exception):
    """The child ended or timed out; worded as the end of a sentence about the plugin."""


class WorkerTimeoutError(WorkerDiedError):
    """The child did not answer in time, and was ended."""


class LibraryWorker:
    """A child with a library loaded. ask() starts one if there is none. init: see PluginLibrary."""

    def __init__(self, library: Path, host: Path | None, timeout_s: float, init: str | None = None) -> None:
        self._library = library
        self._timeout_s = timeout_s
        setup = {"library": os.path.abspath(library), "host": host and os.path.abspath(host), "init": init}
        tunables = filter(None, (os.environ.get("GLIBC_TUNABLES"), _MALLOC))
        self._folder = ScratchFolder("cases")  # nobody else can write there
        self._case_path = Path(self._folder.name, "case")
        self._written: object = None
        self._pool = Pool(
            "trtsmith.converter.plugin.test_worker",
            setup=json.dumps(setup),
            environment={"GLIBC_TUNABLES": ":".join(tunables)},
            start_s=max(timeout_s, SLOWEST_START_S),
        )

    def __enter__(self) -> LibraryWorker:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.close()
        self._folder.cleanup()

    def start(self) -> dict[str, Any]:
        """Returns the library's description, from a child that has loaded it.

        Raises the child's own error, or UsageError where loading ended the child.
        """
        try:
            described = self._pool.start()
        except ChildDied as death:
            raise UsageError(
                f"loading the library {_ending(death, 'return')}",
                str(self._library),
                "a library that can be loaded",
                "load it in a debugger, and check the libraries that it needs with ldd",
            ) from death
        return {**described, "path": str(self._library)}

    def restart(self) -> None:
        """Ends the child; the next question starts another."""
        self._pool.restart()

    def ask(self, creator: int, what: str, case: object) -> dict[str, Any]:
        """Asks about the plugin of one creator, by its index. Raises WorkerDiedError if no answer comes.

        The case goes through a file, once for all questions in a row about it: it may hold arrays of a gigabyte.
        """
        self.start()
        if case is not self._written or case is None:
            with open(self._case_path, "wb") as file:
                pickle.dump(case, file, protocol=5)
            self._written = case
        request = json.dumps([creator, what, str(self._case_path)])
        try:
            return self._pool.ask(request, self._timeout_s)
        except ChildDied as death:
            raise _death(death, "return") from death

    def finish(self) -> None:
        """Lets the child unload the library and end. Raises WorkerDiedError if that ends it otherwise."""
        self.start()
        try:
            self._pool.finish(self._timeout_s)
        except ChildDied as death:
            raise _death(death, "end") from death


def creator_index(described: Mapping[str, Any], plugin: str, library: Path, fix: str) -> int:
    """Finds the place of a plugin's creator in a description. UsageError, with the fix, if the library has no such
    plugin.
    """
    names = [str(creator["name"]) for creator in described["creators"]]
    if plugin not in names:
        what = f"the library has no plugin {plugin}"
        raise UsageError(what, str(library), f"one of {', '.join(names)}", fix)
    return names.index(plugin)


def read_request(text: str) -> tuple[int, str, Any]:
    """Reads the parent's request in the child: (creator, what, case). The child's answers are never unpickled."""
    creator, what, path = json.loads(text)
    with open(path, "rb") as file:
        return creator, what, pickle.load(file)


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
