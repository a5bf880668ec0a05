"""Runs commands in this process, and checks the form of every failure."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import checkout_environment
from trtsmith.converter.cli.main import main

COMMAND = f"{sys.executable} -m trtsmith"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def trtsmith(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ran:
    capsys.readouterr()
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    return Ran(code, *capsys.readouterr())


Cli = Callable[..., Ran]
"""The fixture `cli`: runs a command; its words in one string, further arguments as they are."""


def shell(command: str) -> Ran:
    """A line of bash, whose commands find this checkout."""
    done = subprocess.run(["bash", "-c", command], env=checkout_environment(), capture_output=True, text=True)
    return Ran(done.returncode, done.stdout, done.stderr)


def snapshot(folder: Path = Path()) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def refused(ran: Ran, code: int, *words: str) -> None:
    """A refusal: the exit code, four parts for each problem, no traceback, nothing for a terminal to act on."""
    assert ran.code == code, ran
    assert "Traceback" not in ran.err and not CONTROL.search(ran.err + ran.out), ran.err
    problems = re.split(r"^error: ", ran.err, flags=re.M)[1:]
    assert problems, ran
    for text in problems:
        parts = re.findall(r"^  (where|expected|fix): +(\S.*)$", text, flags=re.M)
        assert [part for part, _ in parts] == ["where", "expected", "fix"], text
        assert text.split("\n")[0].strip()
    for word in words:
        assert word in ran.err, (word, ran.err)


def refuses(cli: Cli, code: int, words: str, *said: str) -> None:
    """The command refuses, and every file in the working folder stays as it was."""
    before = snapshot()
    refused(cli(words), code, *said)
    assert snapshot() == before
