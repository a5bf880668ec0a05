"""The worker process of a batch: runs the command lines of `tune`, `convert` and `bench`, one task after another.

The parent's side is converter/batch/child.py. A request is JSON:

    source, words: of `trtsmith convert SOURCE -o FOLDER/model.plan WORDS`
    bench:         of `trtsmith bench FOLDER/model.plan BENCH`, or null
    tune:          of `trtsmith tune SOURCE -o FOLDER/model.plan TUNE`, whose recipe `convert` applies, or null
    folder:        where the engine goes; reports: where the commands' own reports go
    cwd:           where it works, "" for here; of a module that is named by its dotted name

The answer has exit_code, problems, warnings, report, bench, tune, seconds, versions, and death: how a process of the command
died, where that is why it failed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from trtsmith.argument_words import ZooWords
from trtsmith.convert_function import CONVERSION
from trtsmith.converter.base.errors import EXIT_OK, EXIT_USAGE, BuildRefused, TrtsmithError, causes
from trtsmith.converter.base.options.declared import options_of
from trtsmith.converter.base.progress import Steps
from trtsmith.converter.batch.command_words import all_values
from trtsmith.converter.batch.results.document import PAGE, SEARCH_PAGE
from trtsmith.converter.batch.task import ENGINE
from trtsmith.converter.bench.subject import MODEL_SUFFIX
from trtsmith.converter.cli.console import Console
from trtsmith.converter.cli.main import build_parser, operators_of, problem_of
from trtsmith.converter.convert.precision_request import QUANTIZED
from trtsmith.converter.convert.recipe import SUFFIX, load_recipe
from trtsmith.converter.engine.builder.flavour import installed_flavours
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.operators.own_process import own_process
from trtsmith.converter.verify.verdict_words import with_files
from trtsmith.importers.problem import Problem

SPENT_MIB = 1024.0
"""A worker that holds more after a task ends: the next one's memory would be counted with it. One that has imported
what conversions need holds about 300."""

_WARNING = "warning: "
_PACKAGES = ("numpy", "onnx", "onnxruntime", "torch")
_spent = False  # this process has loaded what the next task must not find


class EventSteps(Steps):
    """Sends steps as events: text for lines, stage and step for live lines, and the share done."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._stage = self._step = ""

    def __call__(self, text: str) -> None:
        self._step = text
        self._send(text)

    def step(self, text: str) -> None:
        self._step = text
        self._send("")

    def note(self, text: str) -> None:
        self._send(text)

    def done(self, text: str) -> None:
        self._send(text)

    def share(self, part: str, done: float, text: str) -> None:
        self._send(text, share=round(done, 4))

    def stage(self, name: str, skip: str = "") -> None:
        del skip  # nobody waits at a terminal
        self._stage, self._step = name, ""

    def _send(self, text: str, **more: float) -> None:
        doing = ": ".join(filter(None, (self._stage, self._step)))
        phase = {"phase": self._step} if self._step else {}  # named if the process dies in it
        self._events.send("progress", text=text, step=doing, **phase, **more)


@dataclass(frozen=True, kw_only=True)
class EventConsole(Console):
    """Turns a command's output into events; drops its results and keeps its warnings."""

    events: Events
    warnings: list[str] = field(default_factory=list)

    def result(self, text: str, states: Sequence[str] = ()) -> None:
        del text, states

    def json(self, document: Any) -> None:
        del document

    @property
    def progress(self) -> EventSteps:
        return EventSteps(self.events)

    def note(self, text: str) -> None:
        self.events.note(text)

    def detail(self, text: str) -> None:
        print(text, flush=True)  # into the log

    def say(self, text: str) -> None:
        if text.startswith(_WARNING):
            self.warnings.append(text.removeprefix(_WARNING))
        else:
            print(text, flush=True)


@dataclass
class _CommandOutcome:
    """The outcome of a command line."""

    exit_code: int
    problems: tuple[Problem, ...] = ()
    death: dict[str, Any] | None = None


def work(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Runs one task."""
    del log_path
    global _spent
    asked = json.loads(request)
    _spent = bool({"--ops", "--plugins"} & {word.split("=")[0] for word in asked["words"]})
    if asked["cwd"]:
        os.chdir(asked["cwd"])
    engine, reports = Path(asked["folder"]) / ENGINE, Path(asked["reports"])
    console = EventConsole(events=events)
    report, times, trials = (reports / f"{name}.json" for name in ("convert", "bench", "tune"))
    page = engine.with_name(PAGE)
    seconds = {}

    def measured(command: str, *words: object) -> _CommandOutcome:
        started = time.monotonic()
        outcome = _run(console, [command, *map(str, words)])
        seconds[command] = round(time.monotonic() - started, 3)
        return outcome

    model_words, done = [asked["source"], "-o", engine], _CommandOutcome(EXIT_OK)
    if asked["tune"] is not None:
        search = engine.with_name(SEARCH_PAGE)
        done = measured("tune", *model_words, *asked["tune"], "--json", trials, "--html", search)
    if done.exit_code == EXIT_OK:
        words = ["convert", *map(str, model_words), *asked["words"], *_recipe_words(engine, asked["tune"])]
        done = _run(console, [*words, "--report", str(report), "--html", str(page)])
        _forget_folder(page, engine.parent)
    if done.exit_code == EXIT_OK and asked["bench"] is not None:
        console.progress("timing the engine")
        done = measured("bench", engine, *asked["bench"], "--json", times)
    keys = ZooWords({option.name: option.kind for option in options_of(CONVERSION)}, {})
    return {
        "exit_code": done.exit_code,
        "problems": [problem.reworded(keys.said).to_json() for problem in done.problems],
        "death": done.death,
        "warnings": list(map(keys.said, console.warnings)),
        "report": _with_keys(_read(report), keys, asked["source"], engine),
        "bench": _read(times),
        "tune": _read(trials),
        "seconds": seconds,
        "versions": _versions(),
    }


def _with_keys(
    report: dict[str, Any] | None, keys: ZooWords, source: str, engine: Path
) -> dict[str, Any] | None:
    """The report, with keys of a zoo instead of flags in warnings and advice, and the task's files in its command."""
    for part in filter(None, (report, report and report.get("verdict"))):
        part["warnings"] = list(map(keys.said, part.get("warnings", ())))
    if report is not None and report.get("verdict"):
        model = Path(source) if Path(source).suffix == MODEL_SUFFIX else source
        report["verdict"]["advice"] = keys.said(with_files(report["verdict"]["advice"], model, engine))
    return report


def _recipe_words(engine: Path, tune: Sequence[str] | None) -> list[str]:
    """The options of `convert` that apply what the search found. tune: the words of the search, None without one."""
    if tune is None:
        return []
    recipe = engine.with_suffix(SUFFIX)
    samples = all_values(tune, "--samples") if load_recipe(recipe).choices.precision in QUANTIZED else ()
    return ["--recipe", str(recipe), *(f"--calibration={file}" for file in samples)]


def _run(console: Console, words: Sequence[str]) -> _CommandOutcome:
    """Runs the command as `trtsmith` does, without its output."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options = build_parser(words).parse_args(words)
    except SystemExit:
        what = said.getvalue().strip().partition("\n")[0].removeprefix("error: ")
        where = f"the command line of `trtsmith {words[0]}`"
        fix = f"trtsmith {words[0]} --help"
        return _CommandOutcome(EXIT_USAGE, (Problem(what, where, "options that the command has", fix),))
    options.words = words[: words.index("--report")] if "--report" in words else words  # pages show them
    return _run_command(options, console)


def _run_command(options: argparse.Namespace, console: Console) -> _CommandOutcome:
    try:
        with own_process(), operators_of(options):
            return _CommandOutcome(options.run(options, console))
    except TrtsmithError as error:
        return _CommandOutcome(error.exit_code, error.problems, _death(error))
    except OSError as error:
        problem, code = problem_of(error)
        if code != EXIT_USAGE:
            raise
        return _CommandOutcome(code, (problem,))


def _death(error: TrtsmithError) -> dict[str, Any] | None:
    """The death of a child process, if it made the command fail. refused: whether the model is to blame."""
    for cause in causes(error):
        if isinstance(cause, ChildDied):
            refused = isinstance(error, BuildRefused) and not cause.timed_out
            return {"timed_out": cause.timed_out, "code": cause.code, "refused": refused}
    return None


def _read(path: Path) -> Any:
    """Reads a report and removes its file; None if the command ended before it wrote one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    finally:
        path.unlink(missing_ok=True)


def _forget_folder(page: Path, folder: Path) -> None:
    """Makes paths in the page relative, as its files move out of the folder."""
    with contextlib.suppress(FileNotFoundError):
        text = page.read_text(encoding="utf-8")
        for form in dict.fromkeys((f"{folder}/", json.dumps(f"{folder}/")[1:-1])):
            text = text.replace(form, "")
        page.write_text(text, encoding="utf-8")


@cache
def _versions() -> dict[str, str]:
    """Versions of the packages that conversions depend on, and of every installed TensorRT."""
    found = {"trtsmith": toolkit_version()}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found | {flavour.name: flavour.version for flavour in installed_flavours()}


def _is_spent() -> bool:
    return _spent or psutil.Process().memory_info().rss > SPENT_MIB * 2**20


if __name__ == "__main__":
    serve(sys.argv[1:], work, spent=_is_spent)
