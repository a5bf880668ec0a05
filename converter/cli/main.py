"""Runs the command `trtsmith`: arguments in, exit code out. Each command is a module of trtsmith.converter.cli.commands."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from trtsmith.converter.base.errors import EXIT_FAILED, EXIT_USAGE, TrtsmithError
from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.converter.base.process.scratch_folder import remove_left_folders
from trtsmith.converter.cli.console import Console, on_terminal
from trtsmith.converter.cli.exit_handling import (
    file_problem,
    hold_standard_streams,
    memory_problem,
    raise_signal,
    signals_unwind,
)
from trtsmith.converter.cli.parsing.command_parser import CommandParser, color_of, common_options
from trtsmith.converter.cli.parsing.overview import COMMANDS, FORMER, Commands, OverviewParser
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.operators.own_process import own_process
from trtsmith.importers.problem import Problem

_EXIT_CODES = (
    "exit codes: 0 done; 1 not convertible, or the build failed; 2 usage, environment, or not a sound model; "
    "3 outputs disagree; 4 not every output could be compared"
)


class _Version(argparse.Action):
    """Reads the version only when asked, which argparse's own action does not."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"trtsmith {toolkit_version()}")
        parser.exit()


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Builds the parser for the command line `words`; None: for all commands.

    It imports the module of the command that the line names, and knows no more of the others than what --help shows:
    `plugin` works where libraries are missing that conversion needs, and --version imports none.
    """
    named = COMMANDS if words is None else [word for word in words if word in COMMANDS][:1]
    parser = OverviewParser(
        prog="trtsmith",
        description="Converts ONNX models with operators that TensorRT cannot import, and compares results.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=CommandParser, action=Commands
    )
    for name in COMMANDS:
        if name in named:
            module = import_module(f"trtsmith.converter.cli.commands.{name.replace('-', '_')}")
            texts = {"description": module.DESCRIPTION, "epilog": getattr(module, "EPILOG", None)}
            run = getattr(module, "run", None)  # None: its actions have one each, and the common options
            parents: Any = [common_options()] if run else []
            command = commands.add_parser(name, parents=parents, **texts)
            command.set_defaults(run=run)
            module.add_arguments(command)
        else:
            commands.add_parser(name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command. TrtsmithErrors become messages on stderr and their exit code."""
    hold_standard_streams()
    if argv is None:  # a process of its own
        gc.disable()  # imports make many objects that live to the end: looking at them is a sixth of the time of a check
    remove_left_folders()
    with signals_unwind(), own_process():
        try:
            return _main(argv)
        except KeyboardInterrupt:  # also while the command's modules are imported
            Console(color=color_of(sys.argv)).say("interrupted")
            return 130


def _words(argv: Sequence[str] | None) -> list[str]:
    """The words of the command line, with today's names of commands, and --help for `help`."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    words[:1] = FORMER.get(words[0], words[:1]) if words else []
    return words


def _main(argv: Sequence[str] | None) -> int:
    words = _words(argv)
    little = memory_problem()
    if little is not None:
        Console().problems([little])
        return EXIT_USAGE
    if not words:
        build_parser(words).print_help(sys.stderr)
        return EXIT_USAGE
    try:
        with foreign_code():  # libraries that are imported may wait for ever
            parser = build_parser(words)
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        options = parser.parse_args(words)
    except ImportError as error:
        raise_signal(error)
        raise
    options.words = words  # pages show the command line
    console = Console(quiet=options.quiet, verbose=options.verbose, color=options.color)
    try:
        with operators_of(options), on_terminal(console) as terminal:
            code: int = options.run(options, terminal)
        sys.stdout.flush()
    except TrtsmithError as error:
        console.problems(error.problems)
        return error.exit_code
    except BrokenPipeError:  # the reader of stdout went away, as `head` does
        _drop_stdout()
        return 141
    except Exception as error:  # the last line of defence: people get a message, not a traceback
        raise_signal(error)
        if isinstance(error, OSError):
            _drop_stdout()  # it may be stdout that failed; a second failure at exit would be a traceback
        import traceback  # here and below: commands that end well need no other module

        problem, code = problem_of(error)
        console.problems([problem])
        console.detail(traceback.format_exc())
    return code


def operators_of(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Registers the user's operators for a command with --ops, unless it does that itself (`operators=False`)."""
    if not hasattr(options, "ops") or not getattr(options, "operators", True):
        return contextlib.nullcontext()
    from trtsmith.converter.operators.loading import (
        operators_in_force,
    )  # imports onnx, which doctor does without

    return operators_in_force(options.ops, installed=options.plugins_from_packages)


def problem_of(error: Exception) -> tuple[Problem, int]:
    """Returns the problem and the exit code for an unexpected exception."""
    known = file_problem(error) if isinstance(error, OSError) else memory_problem(error)
    return (known, EXIT_USAGE) if known else (_internal(error), EXIT_FAILED)


def _internal(error: Exception) -> Problem:
    """The problem for an exception that is a bug."""
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return Problem(
        f"internal error: {type(error).__name__}: {error}",
        f"{Path(frame.filename).name}, line {frame.lineno}",
        "a result, or a message about the input",
        "run the command again with -v, and report what it prints, with the model if you can share it",
    )


def _drop_stdout() -> None:
    """Discards everything that Python writes to stdout from here on, even at exit."""
    with contextlib.suppress(OSError, ValueError):  # not a file: nothing to protect
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
