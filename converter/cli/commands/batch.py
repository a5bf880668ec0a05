"""trtsmith batch: converts the models of a zoo or folder, writes a zoo for a folder of models, or compares two results."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from trtsmith.batch_function import BatchOptions, batch_of
from trtsmith.converter.base.errors import EXIT_FAILED, EXIT_OK, UsageError
from trtsmith.converter.base.options.kinds import Flag, StrPath
from trtsmith.converter.base.output_file import check_report, write_text
from trtsmith.converter.base.own_files import PAGE
from trtsmith.converter.batch.command_words import ANY, GpuDemand, gpu_demand
from trtsmith.converter.batch.driver import run_batch
from trtsmith.converter.batch.results.diff import WORSE, diff_results
from trtsmith.converter.batch.results.document import RESULTS, load_results
from trtsmith.converter.batch.results.pages import diff_page
from trtsmith.converter.batch.task import BatchTask
from trtsmith.converter.batch.zoo.write_zoo import write_zoo
from trtsmith.converter.cli.batch_progress import batch_progress
from trtsmith.converter.cli.console import Console, table
from trtsmith.converter.cli.parsing.command_parser import CommandParser
from trtsmith.converter.cli.reports.batch_diff import render
from trtsmith.converter.cli.reports.batch_lines import summary
from trtsmith.converter.engine.builder.flavour import installed_flavours
from trtsmith.flags import add_options
from trtsmith.importers.counted import counted
from trtsmith.importers.problem import Problem
from trtsmith.options import Replacing
from trtsmith.zoo_commands import zoo_commands

DESCRIPTION = """Convert all models of a folder, or of a zoo, a file that lists models with their options, on this machine or
on a Ray cluster. Keeps finished results; a cache supplies earlier conversions with the same files, options and versions."""

EPILOG = """examples:
  trtsmith batch models
  trtsmith batch --init models -o zoo.toml
  trtsmith batch zoo.toml -o results
  trtsmith batch zoo.toml -o results --only 'resnet*' --retry-failed
  trtsmith batch zoo.toml -o results --on ray-head:6379
  trtsmith batch diff results.old results

exit codes: 0 every task has an engine and none disagrees; 1 a task has no engine; 2 wrong usage, or an unusable folder;
3 all have engines, and one disagrees; 4 none disagrees, but not every output could be compared; 130 interrupted (128 + the
signal): run the same command again to continue
"""

_DIFF = "diff"

_OF_DIFF = ("html", "fail_on")
_OF_INIT = ("force",)
_OF_BATCH = ("jobs", "on", "only", "list", "no_cache", "cache", "retry_failed")
"""Options by the form of the command that they belong to."""


class _Output(TypedDict, total=False):
    """output"""

    output: Annotated[
        StrPath | None,
        Flag(
            "the folder of results (default: the zoo's or folder's name with -results)",
            "DIR",
            "-o",
            "--output",
            common=True,
        ),
    ]
    json: Annotated[bool, Flag("print the results (or those of --list or diff) as JSON", common=True)]


class _NewZoo(TypedDict, total=False):
    """a new zoo"""

    init: Annotated[
        StrPath | None,
        Flag("write a zoo of the models in a folder to the file that -o names", "FOLDER", common=True),
    ]


class _Diff(TypedDict, total=False):
    """diff"""

    html: Annotated[StrPath | None, Flag("also write a page with the differences", "FILE", common=True)]
    fail_on: Annotated[str | None, Flag("exit code 1 if anything became worse", choices=(WORSE,))]


def _in_a_zoo(flag: str, value: str) -> tuple[str, str]:
    """What is expected in the place of a flag of `convert`, and the fix; empty for any other flag."""
    action = zoo_commands().convert.options().get(flag[2:])
    if action is None:
        return "", ""
    written = f"{flag[2:]} = {'true' if action.nargs == 0 else json.dumps(value or '...')}"
    return (
        "options of `trtsmith convert` in the zoo: they belong to its models",
        f"write {written} below [defaults] of the zoo; trtsmith batch --init FOLDER -o FOLDER/zoo.toml writes one "
        "of a folder. Paths there are relative to the zoo",
    )


def add_arguments(parser: CommandParser) -> None:
    parser.elsewhere = _in_a_zoo
    parser.add_argument(
        "zoo",
        nargs="*",
        metavar="ZOO",
        help="the zoo's file (TOML), or a folder of models; or `diff OLD NEW`, two folders of results",
    )
    for block in (_Output, Replacing, BatchOptions, _NewZoo, _Diff):
        add_options(parser, block)


def run(options: argparse.Namespace, console: Console) -> int:
    words: Sequence[str] = options.zoo
    if options.init is not None:
        _check_words(options, words, 0, "--init FOLDER -o ZOO", (*_OF_BATCH, *_OF_DIFF, "json"))
        return _init(options, console)
    if words and words[0] == _DIFF:
        _check_words(options, words, 3, "diff OLD NEW", (*_OF_BATCH, "output"))
        return _diff(options, console, Path(words[1]), Path(words[2]))
    _check_words(options, words, 1, "ZOO", (*_OF_INIT, *_OF_DIFF))
    return _batch(options, console, Path(words[0]))


def _diff(options: argparse.Namespace, console: Console, old: Path, new: Path) -> int:
    given = [file for path in (old, new) for file in (path, path / RESULTS)]
    check_report(options.html, given, "--html", "the page", PAGE, force=options.force)
    diff = diff_results(load_results(old), load_results(new))
    if options.html is not None:
        write_text(options.html, diff_page(diff), "--html", "the page")
    if options.json:
        console.json(diff.to_json())
    else:
        console.result(render(diff))
    return EXIT_FAILED if options.fail_on == WORSE and diff.of(WORSE) else EXIT_OK


def _check_words(
    options: argparse.Namespace, words: Sequence[str], count: int, form: str, foreign: Sequence[str]
) -> None:
    """Raises UsageError for a wrong number of words, and for options of another form of the command."""
    fix = "trtsmith batch --help"
    if len(words) != count:
        given = f"{len(words)} given: {' '.join(words)}" if words else "nothing given"
        what = "too many arguments" if len(words) > count else "arguments are missing"
        if len(words) > count == 1:
            fix = (
                "name the folder of the models, of which --only chooses some, or the file of a zoo, which lists them: "
                "trtsmith batch --init FOLDER -o zoo.toml writes one"
            )
        raise UsageError(f"{what}: {given}", "trtsmith batch", f"trtsmith batch {form}", fix)
    wrong = [name for name in foreign if getattr(options, name) not in (None, False, [])]
    flags = ["-o" if name == "output" else f"--{name.replace('_', '-')}" for name in wrong]
    problems = [
        Problem(
            f"{flag} does not go with `trtsmith batch {form}`",
            flag,
            "options of this form of the command",
            "leave it out",
        )
        for flag in flags
    ]
    if problems:
        raise UsageError(problems)


def _init(options: argparse.Namespace, console: Console) -> int:
    if options.output is None:
        raise UsageError(
            "--init needs a file to write",
            f"--init {options.init}",
            "-o ZOO",
            f"--init {options.init} -o zoo.toml",
        )
    done = write_zoo(options.init, options.output, overwrite=options.force)
    said = [f"zoo:     {done.path} ({counted(done.models, 'model')})"]
    if done.guessed:
        said.append(f"shapes:  guessed for {done.guessed}: look for TODO")
    if done.unread:
        said.append(f"unread:  {done.unread} that cannot be read; comments say why")
    if done.skipped:
        said.append(f"skipped: {len(done.skipped)} whose names are not UTF-8")
    console.result("\n".join(said))
    return EXIT_OK


def _batch(options: argparse.Namespace, console: Console, zoo: Path) -> int:
    named = Path(os.path.abspath(zoo)).stem
    request = batch_of(zoo, options.output or Path(f"{named}-results"), options)
    if options.list:
        _list(request.chosen(), console, as_json=options.json)
        return EXIT_OK
    with batch_progress(console) as progress:
        result = run_batch(request, progress, progress.warn)
    if options.json:
        console.json(json.loads((result.folder / RESULTS).read_text(encoding="utf-8")))
    else:
        console.result(summary(result))
    return result.exit_code


def _list(tasks: Sequence[BatchTask], console: Console, *, as_json: bool) -> None:
    flavours = {found.name for found in installed_flavours()}
    asked = [(task, gpu_demand(task, flavours)) for task in tasks]
    if as_json:
        shown = [
            {
                "name": task.name,
                "model": task.model,
                "variant": dict(task.variant),
                "command": list(task.command),
                "bench": None if task.bench is None else list(task.bench),
                "tune": None if task.tune is None else list(task.tune),
                "needs": vars(task.needs),
                "gpu": None if demand is None else vars(demand),
                "line": task.line,
            }
            for task, demand in asked
        ]
        console.json(shown)
        return
    console.result(
        table([(task.name, _needs(task, demand), shlex.join(task.command)) for task, demand in asked])
    )


def _needs(task: BatchTask, demand: GpuDemand | None) -> str:
    """The task's needs in words: CPUs, memory, GPU, time limit, and whether its engine is tuned and timed."""
    needs = task.needs
    parts = [f"{needs.cpus:g} cpu{'s' * (needs.cpus != 1)}"]
    parts += [f"{needs.memory_mib} MiB"] if needs.memory_mib is not None else []
    if demand is not None:
        one_of = f" of {' or '.join(demand.targets)}" if demand.targets else ""
        parts.append("a GPU" + one_of if demand.name == ANY else f"GPU {demand.name}{one_of}")
    parts += [f"{needs.timeout_s:g} s"] if needs.timeout_s is not None else []
    parts += ["tuned"] if task.tune is not None else []
    parts += ["timed"] if task.bench is not None else []
    return ", ".join(parts)
