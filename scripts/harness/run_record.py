"""Keeps records of measurements: their head, and rows that are written as soon as they are found."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpubundle.unpack import SITE, with_bundle
from trtsmith.converter.base.output_file import write_report
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.plugin.machine import describe, slug

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"

_UNTOLD = ("--output", "--commit", "--bundle")
"""Flags that change nothing that is measured."""


def script_parser(about: str | None) -> argparse.ArgumentParser:
    """A parser that shows a module's docstring unchanged."""
    shown = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=about, formatter_class=shown)


def gpu_parser(about: str | None) -> argparse.ArgumentParser:
    """The same with the options common to scripts that measure on a GPU."""
    parser = script_parser(about)
    parser.add_argument("--output", type=Path, help="the record; default: in benchmarks/<gpu>")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="what scripts/gpu_bundle.py unpacked")
    return parser


def add_seconds(parser: argparse.ArgumentParser, default: float) -> None:
    said = "for all together (default %(default)g)"
    parser.add_argument("--seconds", type=float, default=default, help=said)


@dataclass
class Record:
    """A file that is complete at any moment: `head`, then the jobs' findings as a list called `key`.

    order: of all jobs, in which their rows stand. path: None for no file; `flag` named it. Threads may add.
    """

    path: Path | None
    head: dict[str, Any]
    order: Sequence[str]
    key: str = "rows"
    flag: str = "--output"
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for job in self.order for row in self.found.get(job, ())]

    def resume(self, job_of: Callable[[dict[str, Any]], str], *same: str) -> None:
        """Takes the file's earlier findings if these parts of its head still agree. job_of: the job of a row."""
        if self.path is not None and self.path.exists():
            before = json.loads(self.path.read_text(encoding="utf-8"))
            if all(before[part] == self.head[part] for part in same):
                for row in before[self.key]:
                    self.found.setdefault(job_of(row), []).append(row)

    def add(self, job: str, *rows: dict[str, Any]) -> None:
        with self._lock:
            self.found[job] = list(rows)
            write_report(self.path, {**self.head, self.key: self.rows}, self.flag)


def use_bundle(bundle: Path | None) -> None:
    """Makes the bundle's packages available to this process and its children, for running and for versions in the record."""
    if bundle is not None:
        os.environ.update(with_bundle(bundle, os.environ))
        sys.path.insert(0, str(bundle / SITE))


def gpu_record(
    arguments: argparse.Namespace,
    name: str,
    order: Sequence[str] = (),
    libraries: Iterable[Path] | None = None,
    **head: Any,
) -> Record:
    """A record of this machine, by default benchmarks/<gpu>/name. Raises TrtsmithError without our libraries.

    arguments: of a gpu_parser. head: stands before what is said of the machine.
    """
    use_bundle(arguments.bundle)
    machine = describe(ROOT, list(libraries or [plugin_library()]), arguments.commit)
    path = arguments.output or BENCHMARKS / slug(machine["gpu"]) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return Record(path, {**head, **machine, "command": _command()}, order)


def _command() -> str:
    """The running command, without flags that do not affect results."""
    words, told = list(sys.argv[1:]), []
    while words:
        word = words.pop(0)
        if word in _UNTOLD:
            words.pop(0)
        else:
            told.append(word)
    return shlex.join(["python3", f"scripts/{Path(sys.argv[0]).name}", *told])
