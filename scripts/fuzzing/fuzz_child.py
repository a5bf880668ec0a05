"""Runs commands on model after model, in one process: a child of fuzz_models.py.

    python -m fuzzing.fuzz_child FOLDER MODULE:FUNCTION MIB [--calls]

Jobs come on stdin and answers go to stdout, a line of JSON each: {"commands": [words]}, {"outcomes": [...], "calls": [...]}.
The function is the command line: words in, exit code out. MIB: address space that it may use. --calls: say which calls
of the toolkit's functions, from where, no model before made.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

MOST_SAID = 20_000
"""Characters of what a command says that are kept, from the end."""

_TREES = (f"{os.sep}converter{os.sep}", f"{os.sep}importers{os.sep}")

Command = Callable[[list[str]], int]


def main(arguments: list[str]) -> int:
    folder, named, mib, *flags = arguments
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    said = Path(folder) / "said.txt"
    stream = os.open(said, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    faulthandler.enable()
    module, _, function = named.partition(":")
    command: Command = getattr(importlib.import_module(module), function)
    calls = CallRecord()
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        outcomes = []
        for words in job["commands"]:
            limit_memory(0 if words[:1] == ["convert"] else int(mib))  # a child of its own loads TensorRT
            outcomes.append(_run(command, words, said, stream, calls if "--calls" in flags else None))
        print(json.dumps({"outcomes": outcomes, "calls": calls.taken()}), file=answers, flush=True)
    return 0


def _run(
    command: Command, words: list[str], said: Path, stream: int, calls: CallRecord | None
) -> dict[str, Any]:
    """Exit code (None: an exception came out), what was said, seconds of the processor, largest resident memory in MiB."""
    os.ftruncate(stream, 0)
    _reset_peak()
    began = time.process_time()
    code: int | None
    try:
        if calls is not None:
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
    return {"code": code, "said": text, "cpu_s": time.process_time() - began, "mib": _peak_mib()}


def limit_memory(mib: int) -> None:
    """Allocations beyond it fail; 0: none do. A model of a few bytes must not fill the machine's memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mib << 20 if mib else hard, hard))


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


class CallRecord:
    """Which places of the toolkit call which of its functions: a model that brings a new pair is worth changing further.

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
        """Those that are new since the last time, as numbers that are the same in every process."""
        new, self._new = self._new, []
        return new


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
