"""Commands that misbehave as the name of the graph says, for the tests of the fuzzer."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

import onnx


def faulty(words: list[str]) -> int:
    """The exit code of a command that behaves, where the graph has no name of these."""
    model = onnx.load(words[1])
    _DEEDS.get(model.graph.name, lambda path: None)(Path(words[1]))
    if words[0] == "rewrite":
        Path(words[words.index("-o") + 1]).write_bytes(b"")
    return 9 if model.graph.name == "code" else 0


def _raise(path: Path) -> None:
    raise KeyError("axis")


def _die(path: Path) -> None:
    ctypes.string_at(0)


def _hang(path: Path) -> None:
    while True:
        pass


def _leave(path: Path) -> None:
    path.with_name("half-written").write_bytes(b"")


def _leave_temporary(path: Path) -> None:
    tempfile.mkdtemp()


def _fill(path: Path) -> None:
    bytearray(b"x") * (300 << 20)


_DEEDS = {
    "raise": _raise,
    "die": _die,
    "hang": _hang,
    "leave": _leave,
    "temporary": _leave_temporary,
    "fill": _fill,
}
