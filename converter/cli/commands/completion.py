"""trtsmith completion: prints a script with which a shell completes commands, flags, choices and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from trtsmith.converter.base.errors import EXIT_OK
from trtsmith.converter.cli.console import Console

DESCRIPTION = "Print a completion script for bash, zsh or fish."

SHELLS = ("bash", "zsh", "fish")

EPILOG = """The script contains all completions: the shell does not call trtsmith for them. Print it again after an update.

examples:
  trtsmith completion bash > ~/.local/share/bash-completion/completions/trtsmith
  trtsmith completion zsh > ~/.zfunc/_trtsmith
  trtsmith completion fish > ~/.config/fish/completions/trtsmith.fish
"""
_FILES = ("MODEL", "IN", "SPEC")
"""Arguments that are files, but read as text: they can be something else, too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")


def run(options: argparse.Namespace, console: Console) -> int:
    import shtab  # here: no other command needs it

    from trtsmith.converter.cli.main import build_parser

    parser = build_parser()
    for action in _actions(parser):
        if _is_file(action):
            action.complete = shtab.DIRECTORY if action.metavar in ("DIR", "FOLDER") else shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(parser, options.shell)
    sys.stdout.write(script if script.endswith("\n") else script + "\n")  # as it is: a shell has to read it
    return EXIT_OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of the command and all its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _actions(child)
        else:
            yield action


def _is_file(action: argparse.Action) -> bool:
    return action.type is Path or (action.choices is None and action.metavar in _FILES)
