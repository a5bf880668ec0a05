"""Reads the commands of a page: its fenced `console` blocks, with their stated needs and output.

A command line begins with `$ ` and goes on after a backslash. The lines behind it are its output; a line `...` stands for
any lines, `...` in a line for any text, and numbers may differ from those of the machine at hand. A command exits with 0,
unless `$ echo $?` behind it shows another code. A block with the comment `<!-- needs: NEED -->` above it is not run; NEEDS
lists what there is. A block of another language with a title, as `python title="net.py"`, is the file of that name, which
the commands find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

NEEDS = {
    "gpu": "an NVIDIA GPU",
    "network": "a package index: it installs packages",
    "triton": "Triton, which is a gigabyte: it is run where that is installed",
    "cluster": "several machines",
    "checkout": "the repository itself, and minutes: make targets that .ci/run and the scripts' own tests call",
}
SHELLS = ("console", "bash", "sh", "shell")
COMMANDS = r"(\$ |(sudo )?(trtsmith|trtexec|polygraphy|pip|pip3|make|python|python3|docker|git|mkdir|cat|ls|export) )"

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_NEED = re.compile(r"^ *<!-- needs: (?P<need>.*?) -->$")


class PageError(Exception):
    """A block that is neither run nor marked."""


@dataclass
class Command:
    """A command with the output that the page shows of it, and the exit code that it has to have."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)
    code: int = 0


@dataclass(frozen=True)
class Block:
    """A fenced block of commands. need: a key of NEEDS, or "" for a block that is run."""

    line: int
    commands: tuple[Command, ...]
    need: str


def blocks_of(page: Path) -> list[Block]:
    """The blocks of commands in a page. PageError for commands that no test would see."""
    return list(_blocks(page.read_text(encoding="utf-8").splitlines(), page.name))


def files_of(page: Path) -> dict[str, str]:
    """The files that a page shows, by name."""
    titled = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
    return {found["name"]: found["text"] for found in titled.finditer(page.read_text(encoding="utf-8"))}


def _blocks(lines: list[str], page: str) -> Iterator[Block]:
    number, need = 0, ""
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if fence is None:
            if re.match(rf"^( {{4}}|\t) *{COMMANDS}", line):
                raise PageError(f"{page}:{number + 1}: a command in an indented block: fence it as `console`")
            marked = _NEED.match(line)
            need = marked["need"] if marked else need if not line.strip() else ""
            if need and need not in NEEDS:
                raise PageError(f"{page}:{number + 1}: {need!r} is none of {', '.join(NEEDS)}")
            number += 1
            continue
        end = next(
            (i for i in range(number + 1, len(lines)) if lines[i].strip() == fence["ticks"]), len(lines)
        )
        body = [text.removeprefix(fence["indent"]) for text in lines[number + 1 : end]]
        language = (fence["info"].split() or [""])[0]
        if language in SHELLS:
            yield Block(number + 1, tuple(_commands(body, number + 2, page)), need)
        else:
            for offset, text in enumerate(body):
                if language in ("", "text") and re.match(COMMANDS, text):
                    where = f"{page}:{number + 2 + offset}"
                    raise PageError(f"{where}: a command in a block that is not `console`: {text}")
        number, need = end + 1, ""


def _commands(body: list[str], first: int, page: str) -> list[Command]:
    commands: list[Command] = []
    going_on = False
    for offset, text in enumerate(body):
        if going_on:
            commands[-1].text = commands[-1].text.removesuffix("\\") + text.strip()
        elif text.startswith("$ "):
            commands.append(Command(first + offset, text.removeprefix("$ ")))
        elif not commands:
            raise PageError(f"{page}:{first + offset}: a command begins with `$ `: {text}")
        else:
            commands[-1].output.append(text)
        going_on = bool(commands) and not commands[-1].output and commands[-1].text.endswith("\\")
    return _with_codes(commands)


def _with_codes(commands: list[Command]) -> list[Command]:
    """`$ echo $?` is no command to run: its output is the exit code of the command before it."""
    kept: list[Command] = []
    for command in commands:
        if command.text == "echo $?" and kept:
            kept[-1].code = int(command.output[0])
        else:
            kept.append(command)
    return kept


def shows(page: list[str], real: str) -> bool:
    """Whether the lines of a page are the real output: any lines or text for `...`, any numbers for numbers."""
    if not page:
        return True
    pattern = "".join(r"(?:[^\n]*\n)*?" if line.strip() == "..." else _escaped(line) + r"\n" for line in page)
    text = "\n".join(_masked(line) for line in real.rstrip("\n").splitlines()) + "\n"
    return re.fullmatch(pattern, text) is not None


def _escaped(line: str) -> str:
    return ".*".join(map(re.escape, _masked(line).split("...")))


def _masked(line: str) -> str:
    """The line without its numbers and without the widths of its columns, which depend on them."""
    return " ".join(re.sub(r"\d+(?:[.,]\d+)*(?:e[-+]\d+)?", "#", line).split())
