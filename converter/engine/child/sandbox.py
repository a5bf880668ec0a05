"""Blocks actions that reading untrusted models never needs: starting programs, sockets, pickles, loading libraries.

A second line behind the checks of what is read, by Python's audit events (PEP 578). A hook cannot be removed again, so this
is for processes that do one thing and end.
"""

from __future__ import annotations

import sys
from typing import Any

_REFUSED = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "os.kill",
    "os.putenv",
    "subprocess.Popen",
    "pty.spawn",
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "urllib.Request",
    "ftplib.connect",
    "smtplib.connect",
    "ctypes.dlopen",
    "webbrowser.open",
    "shutil.rmtree",
    "pickle.find_class",
)


class ForbiddenError(RuntimeError):
    """The process tried something that a model never needs."""


def lock_down() -> None:
    """Makes the audit events above raise ForbiddenError in this process from now on."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_REFUSED):
            raise ForbiddenError(f"{event} {str(arguments)[:100]}")

    sys.addaudithook(hook)
