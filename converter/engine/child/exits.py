"""Describes how a process ended."""

from __future__ import annotations

import signal

_MEANINGS = {
    "SIGSEGV": "a bad memory access, in TensorRT or in a plugin",
    "SIGABRT": "it called std::terminate or abort",
    "SIGBUS": "a bad memory access, or a file that shrank while it was mapped",
    "SIGFPE": "a division by zero",
    "SIGILL": "an instruction that this processor lacks",
    "SIGKILL": "killed by the system, most often because it ran out of memory",
    "SIGTERM": "ended from outside",
}


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


def describe_exit(returncode: int) -> str:
    """Says what ended a process, for a returncode of subprocess: negative for a signal."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    name = signal_name(-returncode)
    if not name.startswith("SIG"):
        return f"was ended by {name}"
    meaning = _MEANINGS.get(name)
    return f"died of {name}" + (f" ({meaning})" if meaning else "")


def signal_name(number: int) -> str:
    """Names a signal: "SIGSEGV"; "signal 77" for one that has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
