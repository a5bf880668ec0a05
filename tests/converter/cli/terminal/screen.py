"""Runs commands on a pseudo-terminal, and reads its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.converter.models import written
from tests.processes import checkout_environment, readable

_CONTROL = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+|\x1b")
_SGR = re.compile(r"\x1b\[[\d;]*m")
COLUMNS = 90
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Shown:
    """raw: all that was written; screen: what is left on it in the end, colours aside; out: stdout, if it is a pipe."""

    code: int
    raw: str
    out: str

    @property
    def screen(self) -> str:
        return screen_of(self.raw)

    @property
    def frames(self) -> list[str]:
        """Every line that was on the screen at any time, colours aside, in the order in which they came."""
        plain = _SGR.sub("", self.raw)
        return [part for part in re.split(r"\x1b\[\??[\d;]*[A-Za-z]|\r|\n", plain) if part.strip()]


def convolutions(path: Path, count: int, channels: int = 8) -> Path:
    """A model whose build takes a while."""
    weight = np.full((channels, channels, 3, 3), 0.01, np.float32)
    layer = "[c{0}] a{0} = Conv <pads = [1, 1, 1, 1]> (v{0}, w{0}) [r{0}] v{1} = Relu (a{0})"
    body = "\n".join(layer.format(i, i + 1) for i in range(count))
    shape = f"float[1,{channels},32,32]"
    return written(
        path, f"({shape} v0) => ({shape} v{count}) {{ {body} }}", {f"w{i}": weight for i in range(count)}
    )


def screen_of(raw: str) -> str:
    """The lines that are left: of the control sequences those that are used for a line that is written anew."""
    lines, row, column = [""], 0, 0
    for found in _CONTROL.finditer(_SGR.sub("", raw)):
        text, value, kind = found[0], found[1], found[2]
        if text == "\r":
            column = 0
        elif text == "\n":
            row, column = row + 1, 0  # the terminal's driver writes \r\n
            lines += [""] * (row + 1 - len(lines))
        elif kind == "K":
            assert value == "2", value
            lines[row] = ""
        elif kind == "A":
            row -= int(value or 1)
        elif kind is not None:
            assert kind in "hl" and value == "?25", found[0]  # the cursor is hidden or shown
        else:
            before = lines[row].ljust(column)
            lines[row] = before[:column] + text + before[column + len(text) :]
            column += len(text)
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


def on_a_terminal(
    *arguments: object,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    piped: bool = True,
    command: tuple[str, ...] = ("-m", "trtsmith"),
    meanwhile: Callable[[str, int], None] | None = None,
) -> Shown:
    """trtsmith with stderr on a terminal of COLUMNS columns; stdout too, unless it is `piped`.

    meanwhile: called with all that was written so far, and the process's id, whenever something is.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, COLUMNS, 0, 0))
    inherited = {
        name: value
        for name, value in checkout_environment().items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    }
    child = subprocess.Popen(
        [sys.executable, *command, *map(str, arguments)],
        cwd=folder,
        env=inherited | {"TERM": "xterm"} | dict(environment or {}),
        stdin=follower,
        stderr=follower,
        stdout=subprocess.PIPE if piped else follower,
        start_new_session=True,
    )
    os.close(follower)
    raw, end = b"", time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < end:
            if not readable(leader, 0.2):
                continue
            try:
                data = os.read(leader, 65536)
            except OSError:  # nobody holds the other side any more
                break
            raw += data
            if meanwhile is not None:
                meanwhile(raw.decode(errors="replace"), child.pid)
        out = child.stdout.read().decode() if child.stdout is not None else ""
        code = child.wait(10)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
        os.close(leader)
    return Shown(code, raw.decode(errors="replace").replace("\r\n", "\n"), out)
