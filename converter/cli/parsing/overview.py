"""Lists the commands in groups, for `trtsmith` alone, and gives their help to the parser, before any is imported."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

COMMANDS: Mapping[str, tuple[str, str]] = {
    "convert": ("convert", "ONNX model or PyTorch program in, TensorRT engine out"),
    "check": ("convert", "how every node reaches TensorRT"),
    "rewrite": ("convert", "write the rewritten ONNX graph"),
    "run": ("run and compare", "run an engine on the arrays of a file"),
    "verify": ("run and compare", "an engine's outputs against onnxruntime's"),
    "locate": ("run and compare", "find the node that makes an engine's numbers wrong"),
    "bench": ("run and compare", "time an engine, by layer, and against other runtimes"),
    "bundle": ("deploy", "an engine as a model of a Triton Inference Server repository"),
    "ops": ("operators and plugins", "operators, aliases and dtypes"),
    "plugin": ("operators and plugins", "look into plugin libraries and test them"),
    "new": ("operators and plugins", "write the package of an operator of your own"),
    "build-plugins": ("operators and plugins", "compile the operators of a package of yours"),
    "batch": ("convert", "convert many models, here or on a cluster; what changed since"),
    "cache": ("deploy", "show and clear what `trtsmith batch` keeps of its conversions"),
    "doctor": ("this machine", "what is installed, what is missing, how to get it"),
    "completion": ("this machine", "a script for the completion of a shell"),
}
"""By command: its group, and its help. Each is a module of trtsmith.converter.cli.commands."""


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # no generic at run time
    """The commands of `trtsmith`: a parser added here has the help of COMMANDS."""

    def add_parser(self, name: str, **options: Any) -> Any:
        return super().add_parser(name, help=COMMANDS[name][1], **options)


def overview() -> str:
    """The commands of `trtsmith`, a line each, in their groups."""
    width = max(map(len, COMMANDS))
    lines = []
    for title in dict.fromkeys(group for group, _ in COMMANDS.values()):
        lines.append(f"{title}:")
        lines += [
            f"  {name.ljust(width)}  {said}" for name, (group, said) in COMMANDS.items() if group == title
        ]
    return "\n".join(lines)


def short_help(parser: argparse.ArgumentParser) -> str:
    """What `trtsmith` alone says."""
    return (
        f"{parser.description}\n\nusage: {parser.prog} COMMAND ...\n\n{overview()}\n\n"
        f"{parser.prog} COMMAND --help tells of its flags; {parser.prog} check MODEL is a good first step."
    )
