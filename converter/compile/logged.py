"""Runs commands whose output goes to a log, and explains why one failed."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.progress import notes_of
from trtsmith.importers.problem import Problem

Say = Callable[[str], None]
"""Shows a line of progress."""

TAIL_LINES = 15

# (what a failed command's output says in lower case, what was expected, the fix); the first row that fits is shown.
CAUSES = (
    (
        ("no space left on device",),
        "about 6 GB of free disk",
        "free some space (make clean removes what was built here), then run it again",
    ),
    (
        ("could not find a version", "no matching distribution"),
        "a package index that serves the pinned version for this Python and platform (Linux x86_64)",
        "check that pip on its own can install the package named in the log; pip's own configuration is used",
    ),
    (
        (
            "connectionerror",
            "connection refused",
            "connection broken",
            "timed out",
            "name resolution",
            "sslerror",
        ),
        "pip to reach its package index",
        "check pip's configuration and the network, then run it again",
    ),
    (
        ("do not match the hashes",),
        "the file with the pinned SHA-256",
        "do not use that file: find out where pip got it from (pip config list)",
    ),
    (
        ("unsupported gnu version",),
        "a host compiler that this nvcc accepts",
        "set CXX to an older g++, or TRTSMITH_CUDA=pypi for a newer nvcc",
    ),
    (
        ("unsupported gpu architecture",),
        "architectures that this nvcc can compile for",
        "drop the one named in the log from TRTSMITH_CUDA_ARCHITECTURES, or set TRTSMITH_CUDA=pypi for a newer nvcc",
    ),
    (
        ("warnings being treated as errors",),
        "a compiler that has no warning for plugins_cpp",
        "report the warning; until then set CMAKE_ARGS=-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF",
    ),
    (
        ("killed",),
        "about 4 GB of free memory for each compile job",
        "run it again with TRTSMITH_JOBS=1",
    ),
)


class SetupError(UsageError):
    """A step cannot go on. tail: the last lines of a command's output, which are shown before the problem."""

    tail = ""

    @property
    def problem(self) -> Problem:
        return self.problems[0]

    def with_tail(self, tail: str) -> SetupError:
        self.tail = tail
        return self


def say(message: str) -> None:
    print(f"[setup] {message}", file=sys.stderr, flush=True)


def run_logged(
    what: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None, say: Say = say
) -> None:
    """Runs argv with no stdin and all its output in `log`. Raises SetupError, with the log's last lines, if it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("", encoding="utf-8")
    say(f"{what} ...")
    start = time.monotonic()
    code = run_into(log, argv, env)
    if code != 0:
        text = log.read_text(encoding="utf-8", errors="replace")
        problem, tail = explain_failure(what, code, text, log), "\n".join(text.splitlines()[-TAIL_LINES:])
        raise SetupError(problem).with_tail(tail)
    notes_of(say)(f"{what}: {time.monotonic() - start:.1f} s")


def run_into(log: Path, argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Runs argv with no stdin, adds its output to the log, and returns the exit code; 127 for what cannot be run."""
    with log.open("a", encoding="utf-8", errors="replace") as out:
        out.write(shlex.join(argv) + "\n")
        out.flush()
        nothing, both = subprocess.DEVNULL, subprocess.STDOUT
        try:
            return subprocess.run(list(argv), stdin=nothing, stdout=out, stderr=both, env=env).returncode
        except OSError as error:
            out.write(f"{error}\n")
            return 127


def explain_failure(what: str, code: int, output: str, log: Path) -> Problem:
    """Makes the problem behind a failed command. A signal (a negative code, or 137) mostly means too little memory."""
    low = output.lower() + ("killed" if code < 0 or code == 137 else "")
    unknown = (
        "exit code 0",
        "read the log's last lines, mend what they name, and run the same command again",
    )
    known = ((expected, fix) for signs, expected, fix in CAUSES if any(sign in low for sign in signs))
    expected, fix = next(known, unknown)
    return Problem(f"{what} failed with exit code {code}.", str(log), expected, fix)
