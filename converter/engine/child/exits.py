"""Describes how a process ended."""

from __future__ import annotations

import signal

_MEANINGS = {
    "SIGSEGV": "a bad memory access, in TensorRT or in a plugin",
    "SIGABRT": "it called std::terminate or abort",
    "SIGBUS": "a bad memory access, or a file that shrank while it was mapped",
    "SIGFPE": "a division by zero",
    "SIGILL": "an instruction that this processor lacks",
    "SIGKILL": "killed from outside: most often the system ran out of memory",
    "SIGTERM": "ended from outside",
}


def describe_exit(returncode: int) -> str:
    """What ended a process, for a returncode of subprocess: negative for a signal."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    name = signal_name(-returncode)
    if not name.startswith("SIG"):
        return f"was ended by {name}"
    meaning = _MEANINGS.get(name)
    return f"died of {name}" + (f" ({meaning})" if meaning else "")


def signal_name(number: int) -> str:
    """ "SIGSEGV"; "signal 77" for one that has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
