"""Shows the commands in groups, for `trtsmith` alone and for its --help."""

from __future__ import annotations

import argparse

GROUPS = {
    "convert": ("convert", "check", "rewrite", "batch"),
    "run and compare": ("run", "verify", "locate", "bench"),
    "deploy": ("bundle", "cache"),
    "operators and plugins": ("ops", "plugin", "new", "build-plugins"),
    "this machine": ("doctor", "completion"),
}
"""Commands by what they are for; what is in no group comes last."""


def overview(parser: argparse.ArgumentParser) -> str:
    """The commands of `trtsmith`, a line each, in their groups."""
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    grouped = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, "others": tuple(name for name in helps if name not in grouped)}
    width = max(map(len, helps))
    lines = []
    for title, names in groups.items():
        there = [name for name in names if name in helps]
        if there:
            lines += [f"{title}:", *(f"  {name.ljust(width)}  {helps[name]}" for name in there)]
    return "\n".join(lines)


def short_help(parser: argparse.ArgumentParser) -> str:
    """What `trtsmith` alone says."""
    return (
        f"{parser.description}\n\nusage: {parser.prog} COMMAND ...\n\n{overview(parser)}\n\n"
        f"{parser.prog} COMMAND --help tells of its flags; {parser.prog} check MODEL is a good first step."
    )
