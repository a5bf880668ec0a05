"""Writes the reference of the command line from the argparse parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from docpages.marks import code, escaped, markdown_table
from trtsmith.converter.cli.main import build_parser
from trtsmith.converter.cli.parsing.command_parser import CommandParser

COMMON = ("help", "help_all", "quiet", "verbose", "color")
"""Options of every command, which are told once."""


def command_line() -> str:
    """A section for each command: description, usage, and arguments by group."""
    return "\n\n".join(section(parser) for parser in leaves(build_parser()))


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of commands, or of their actions for commands with actions."""
    children = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not children:
        yield parser
    for action in children:
        for child in action.choices.values():
            yield from leaves(child)


def section(parser: argparse.ArgumentParser) -> str:
    command = parser.prog
    parts = [f"## {command}", " ".join((parser.description or _help_of(command)).split()), usage(parser)]
    for group in parser._action_groups:
        actions = [
            a for a in group._group_actions if a.dest not in COMMON and a.help is not argparse.SUPPRESS
        ]
        if actions:
            title = (group.title or "").capitalize()
            rows = [(_names(parser, action), _said(parser, action)) for action in actions]
            parts.append(markdown_table((title, ""), rows))
    notes = (parser.epilog or "").split("examples:")[0].strip()
    return "\n\n".join([*parts, *([f"```text\n{notes}\n```"] if notes else [])])


def usage(parser: argparse.ArgumentParser) -> str:
    """The command with its required arguments."""
    options = [a for a in parser._actions if a.option_strings]
    needed = [f"{a.option_strings[0]} {_value(a)}" for a in options if a.required]
    given = [_value(a) + (" ..." if a.nargs == "+" else "") for a in parser._actions if not a.option_strings]
    return f"`{' '.join([parser.prog, *given, *needed])} [OPTIONS]`"


def _help_of(command: str) -> str:
    """The parent's help for a command without a description of its own."""
    parser: argparse.ArgumentParser = build_parser()
    said = ""
    for word in command.split()[1:]:
        action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        said = next((c.help or "" for c in action._choices_actions if c.dest == word), "")
        parser = action.choices[word]
    return said[:1].upper() + said[1:] + ("" if said.endswith(".") else ".")


def _names(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """The flag with its value; bold if the short help shows it."""
    if not action.option_strings:
        return code(_value(action))
    value = "" if action.nargs == 0 else f" {_value(action)}"
    names = ", ".join(code(name + value) for name in action.option_strings)
    assert isinstance(parser, CommandParser)
    return f"**{names}**" if parser.has_short_help() and parser.is_short(action) else names


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def _said(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    said = parser._get_formatter()._expand_help(action) if action.help else ""
    return escaped(said + (" (required)" if action.required and action.option_strings else ""))
