"""Runs commands on model after model, in one process: a child of fuzz_models.py.

    python -m fuzzing.fuzz_child SAID MODULE:FUNCTION MIB [--calls]

A request is the words of a command, an answer what came of it. SAID: the file that stderr is. The function is the command
line: words in, exit code out. MIB: address space that it may use. --calls: say which calls of the toolkit's functions, from
where, no model before made.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import resource
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from harness.line_child import answer_lines

MOST_SAID = 20_000
"""Characters of what a command says that are kept, from the end."""

_TREES = (f"{os.sep}converter{os.sep}", f"{os.sep}importers{os.sep}")

Command = Callable[[list[str]], int]


def main(arguments: list[str]) -> int:
    said, named, mib, *flags = arguments
    answer_lines(
        lambda: partial(_run, _command(named), Path(said), int(mib), CallRecord(), "--calls" in flags)
    )
    return 0


def _command(named: str) -> Command:
    faulthandler.enable()
    module, _, function = named.partition(":")
    command: Command = getattr(importlib.import_module(module), function)
    return command


def _run(
    command: Command, said: Path, mib: int, calls: CallRecord, traced: bool, words: list[str]
) -> dict[str, Any]:
    """Exit code (None for an exception), output, CPU seconds, and peak resident memory in MiB."""
    limit_memory(0 if words[:1] == ["convert"] else mib)  # a child of its own loads TensorRT
    os.truncate(said, 0)
    _reset_peak()
    began = time.process_time()
    code: int | None
    try:
        if traced:
            sys.settrace(calls.trace)
        code = command(words)
    except SystemExit as ended:  # of argparse
        code = ended.code if isinstance(ended.code, int) else None
    except BaseException:
        code = None
        traceback.print_exc()
    finally:
        sys.settrace(None)
    sys.stdout.flush()
    sys.stderr.flush()
    text = said.read_text(encoding="utf-8", errors="replace")[-MOST_SAID:]
    spent = {"cpu_s": time.process_time() - began, "mib": _peak_mib()}
    return {"code": code, "said": text, **spent, "calls": calls.taken()}


def limit_memory(mib: int) -> None:
    """Makes larger allocations fail (0: no limit), so that a model of a few bytes cannot fill the machine's memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mib << 20 if mib else hard, hard))


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


class CallRecord:
    """Pairs of call sites and called functions in the toolkit: a model with a new pair is worth further changes.

    Lines would say more, and cost ten times as much on a Python without sys.monitoring.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._new: list[int] = []

    def trace(self, frame: FrameType, event: str, argument: object) -> None:
        code, caller = frame.f_code, frame.f_back
        if caller is None or not any(tree in code.co_filename for tree in _TREES):
            return
        pair = hash((code.co_filename, code.co_firstlineno, caller.f_lineno))
        if pair not in self._seen:
            self._seen.add(pair)
            text = f"{code.co_filename}:{code.co_firstlineno}<{caller.f_code.co_filename}:{caller.f_lineno}"
            self._new.append(zlib.crc32(text.encode()))

    def taken(self) -> list[int]:
        """The pairs that are new since the last call, as numbers that are equal in all processes."""
        new, self._new = self._new, []
        return new


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
