"""Keeps records of measurements: their head, and rows that are written as soon as they are found."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from freshness.record_rows import BENCHMARKS, row_of
from freshness.sources import ROOT, hashes, tree_here
from gpubundle.unpack import SITE, with_bundle
from trtsmith.converter.base.output_file import write_report
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.plugin.machine import commit_of, describe, slug

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


def add_resume(parser: argparse.ArgumentParser) -> None:
    said = "keep the rows that the record has of the same code"
    parser.add_argument("--resume", action="store_true", help=said)


def machine() -> dict[str, Any]:
    """The processor and Python of this machine, and the date."""
    said = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    cpu = re.search(r"^model name\s*:\s*(.+)$", said, re.MULTILINE)
    return {
        "cpu": cpu[1] if cpu else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def origin(path: Path | None) -> dict[str, Any]:
    """The head of a record: commit, command, machine and, of a record in the table, hashes of the code of its figures."""
    if path is None:
        return {}
    row, head = row_of(path), {"commit": commit_of(ROOT), "command": _command(), "machine": machine()}
    return head | ({"rests_on": hashes(row.rests_on, tree_here())} if row else {})


def write_record(path: Path | None, found: Mapping[str, Any], flag: str) -> dict[str, Any]:
    """Writes a record with its head, and returns it. Raises UsageError, which names the flag, if that is not possible."""
    record = {**origin(path), **found}
    write_report(path, record, flag)
    return record


@dataclass
class Record:
    """A file that is complete at any moment: `head`, then the jobs' findings as a list called `key`.

    order: of all jobs, in which their rows stand. path: None for no file; `flag` named it. counted: the file says how many
    jobs are left. Threads may add.
    """

    path: Path | None
    head: dict[str, Any]
    order: Sequence[str]
    key: str = "rows"
    flag: str = "--output"
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    counted: bool = False

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.head = {**origin(self.path), **self.head}
        self._older: dict[str, Any] = {}
        self._kept: set[str] = set()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for job in self.order for row in self.found.get(job, ())]

    @property
    def left(self) -> list[str]:
        """The jobs without a finding, and those whose process died or had no time."""
        return [job for job in self.order if all("died" in row for row in self.found.get(job, ()))]

    def resume(self, job_of: Callable[[dict[str, Any]], str], *same: str) -> None:
        """Takes the file's earlier findings if these parts of its head still agree. job_of: the job of a row.

        As long as findings of other code are among them, the head names that code.
        """
        if self.path is not None and self.path.exists():
            before = json.loads(self.path.read_text(encoding="utf-8"))
            if all(before.get(part) == self.head[part] for part in same):
                for row in before[self.key]:
                    self.found.setdefault(job_of(row), []).append(row)
                if before.get("rests_on") != self.head.get("rests_on"):
                    self._kept = {*self.found} & {*self.order}
                    self._older = {part: before.get(part, "") for part in ("commit", "date", "rests_on")}

    def add(self, job: str, *rows: dict[str, Any]) -> None:
        with self._lock:
            self.found[job] = list(rows)
            self._kept.discard(job)
            head = {**self.head, **(self._older if self._kept else {})}
            if self.counted and self.left:
                head["left"] = len(self.left)
            write_report(self.path, {**head, self.key: self.rows}, self.flag)


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
    job_of: Callable[[dict[str, Any]], str] | None = None,
    **head: Any,
) -> Record:
    """A record of this machine, by default benchmarks/<gpu>/name. Raises TrtsmithError without our libraries.

    arguments: of a gpu_parser. job_of: the job of a row, for --resume. head: stands before what is said of the machine.
    """
    use_bundle(arguments.bundle)
    known = describe(ROOT, list(libraries or [plugin_library()]), arguments.commit)
    path = arguments.output or BENCHMARKS / slug(known["gpu"]) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    record = Record(path, {**head, **known}, order, counted=True)
    if job_of is not None and arguments.resume and "rests_on" in record.head:
        record.resume(job_of, "gpu", "rests_on")
    return record


def _command() -> str:
    """The running command, without flags that do not affect results."""
    words, told = list(sys.argv[1:]), []
    while words:
        word = words.pop(0)
        if word in _UNTOLD:
            words.pop(0)
        else:
            told.append(word)
    return shlex.join(["python3", os.path.relpath(sys.argv[0], ROOT), *told])
