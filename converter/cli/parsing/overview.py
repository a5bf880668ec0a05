"""Lists the commands in groups with their help, without importing them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from trtsmith.converter.cli.parsing.command_parser import CommandParser
from trtsmith.converter.cli.parsing.help_text import MOST_COLUMNS, filled

COMMANDS: Mapping[str, tuple[str, str]] = {
    "convert": ("convert", "ONNX model or PyTorch program in, TensorRT engine out"),
    "check": ("convert", "how every node reaches TensorRT"),
    "tune": ("convert", "search the fastest engine that is still right"),
    "rewrite": ("convert", "write the rewritten ONNX graph"),
    "sample": ("convert", "write a sample model to try the commands on"),
    "run": ("run and compare", "run an engine on the arrays of a file"),
    "verify": ("run and compare", "compare an engine's outputs with onnxruntime's"),
    "locate": ("run and compare", "find the node that makes an engine's results wrong"),
    "bench": ("run and compare", "time an engine, by layer, and against other runtimes"),
    "refit": ("deploy", "give an engine the weights of another model of the same structure"),
    "bundle": ("deploy", "what Triton, DeepStream or onnxruntime needs to run an engine"),
    "ops": ("operators and plugins", "operators, aliases and dtypes"),
    "plugin": ("operators and plugins", "inspect and test plugin libraries"),
    "op": ("operators and plugins", "write, compile and test operators of your own"),
    "batch": ("convert", "convert many models, here or on a cluster, and compare runs"),
    "cache": ("deploy", "show and prune the cache of `trtsmith batch`"),
    "doctor": ("this machine", "show what is installed, what is missing, and how to get it"),
    "completion": ("this machine", "print a shell completion script"),
}
"""By command: its group, and its help. Each is a module of trtsmith.converter.cli.commands."""

FORMER = {"new": ("op", "new"), "build-plugins": ("op", "build")}
"""By a command's former name, which scripts may use: its words now."""


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # no generic at run time
    """The commands of `trtsmith`; parsers added here get their help from COMMANDS."""

    def add_parser(self, name: str, **options: Any) -> Any:
        return super().add_parser(name, help=COMMANDS[name][1], **options)


class OverviewParser(CommandParser):
    """The parser of `trtsmith` itself, with the commands in groups in its help."""

    def format_help(self, every: bool = False) -> str:
        flags = [(", ".join(a.option_strings), str(a.help)) for a in self._actions if a.option_strings]
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title, _ in COMMANDS.values()}
        for name, (title, said) in COMMANDS.items():
            groups[title].append((name, said))
        width = max(map(len, COMMANDS))
        lines = [f"{self.description}", "", f"usage: {self.prog} COMMAND ...", ""]
        for title, rows in (*groups.items(), ("options", flags)):
            lines += [f"{title}:", *(f"  {name.ljust(width)}  {said}" for name, said in rows)]
        notes = f"{self.prog} COMMAND --help shows its flags; {self.prog} check MODEL is a good first step."
        return "\n".join([*lines, "", notes, "", filled(self.epilog or "", MOST_COLUMNS)])
