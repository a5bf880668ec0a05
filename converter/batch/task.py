"""Defines the data of a batch: tasks of a zoo, records of their results, and the executors' events."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import msgspec

from trtsmith.converter.batch.machine import MachineFacts
from trtsmith.importers.problem import Problem

ENGINE = "model.plan"
"""The engine's file in a task's folder; the manifest, the plugin libraries and the record stand beside it."""

RECORD = "record.json"
"""The record's file in a task's folder: written last, so that a folder with one is complete."""

SCHEMA = 1


@dataclass(frozen=True)
class Needs:
    """Resources that a task occupies while it runs.

    cpus:       cores.
    memory_mib: of all its processes together; the task ends where they take more. None: no limit.
    gpu:        "" for none; "any"; or a name as Ray's accelerator types have it ("H100", "L4").
    timeout_s:  for the whole task; None: no limit.
    """

    cpus: float = 1.0
    memory_mib: int | None = None
    gpu: str = ""
    timeout_s: float | None = None


@dataclass(frozen=True)
class BatchTask:
    """One conversion.

    name:    "model/variant", or the model's name where it has one variant only: unique, and the task's folder.
    model:   the name of the model in the zoo; variant: the values of the matrix by axis, {} without one.
    source:  the model as `trtsmith convert` takes it: an absolute path, or "package.module:function".
    words:   the command line of `trtsmith convert SOURCE -o ENGINE`, without these three; paths in it are absolute.
    bench:   the command line of `trtsmith bench`, likewise; None: the engine is not timed.
    tune:    the command line of `trtsmith tune`, likewise, whose recipe `convert` then gets; None: nothing is searched.
    files:   every file that the conversion reads, absolute: the model with its external data, inputs, plugin libraries,
        definitions of operators. They are sent to other machines, and the key of the cache is made of them.
    hashed:  whether `files` are all that it depends on. A module that is imported by name is not: it is never cached.
    line:    of the zoo's file, 1 for the first.
    """

    name: str
    model: str
    source: str
    words: tuple[str, ...]
    files: tuple[Path, ...]
    variant: Mapping[str, str] = field(default_factory=dict)
    bench: tuple[str, ...] | None = None
    tune: tuple[str, ...] | None = None
    needs: Needs = field(default_factory=Needs)
    hashed: bool = True
    line: int = 0

    @property
    def command(self) -> tuple[str, ...]:
        """The command line that makes the same engine."""
        command, words = ("convert", self.words) if self.tune is None else ("tune", self.tune)
        return ("trtsmith", command, self.source, "-o", ENGINE, *words)


def is_selected(name: str, model: str, only: Sequence[str]) -> bool:
    """Tells whether one of the patterns matches a task's name or model; always without patterns."""
    return not only or any(fnmatchcase(text, pattern) for pattern in only for text in (name, model))


class TaskStatus(str, Enum):
    """The status with which a task ended."""

    AGREE = "agree"
    """Converted, and the numbers agree."""
    CONVERTED = "converted"
    """Converted; no comparison was asked for."""
    DISAGREE = "disagree"
    """Converted; the numbers disagree, or 8 bits cost more than --max-cost."""
    NOT_COMPARABLE = "not comparable"
    """Converted; not every output could be compared (the verdict says which)."""
    REFUSED = "refused"
    """Not convertible, or TensorRT refuses to build it: exit code 1."""
    INVALID = "invalid"
    """The model or the options are not sound, or the machine lacks something: exit code 2."""
    CRASHED = "crashed"
    """A process died, TensorRT's or ours."""
    TIMEOUT = "timeout"
    MEMORY = "memory"
    """The task took more memory than it was given."""
    LOST = "lost"
    """The worker or the machine that had it is gone, again after its retries."""
    CANCELLED = "cancelled"
    """The whole was ended before it was done."""

    @property
    def passed(self) -> bool:
        """Whether there is an engine that passed."""
        return self in (TaskStatus.AGREE, TaskStatus.CONVERTED)

    @property
    def settled(self) -> bool:
        """Whether the outcome is reproducible, so that it is kept, cached and not run again."""
        return self.passed or self in (TaskStatus.DISAGREE, TaskStatus.NOT_COMPARABLE, TaskStatus.REFUSED)


@dataclass(frozen=True)
class FileFacts:
    """A file of a task's folder. sha256: in hexadecimal, without a prefix."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class TaskRecord:
    """The outcome of one task: the JSON beside its engine, the source of every page and report.

    key:      of the cache; "" for a task that is never cached (see BatchTask.hashed).
    command:  the command line that does the same by hand, as a list of words.
    files:    of the task's folder, by name, but for the record itself.
    report:   of `trtsmith convert --report` (trtsmith.converter.convert.reports); None where there is none.
    bench:    of `trtsmith bench --json`; None where nothing was timed.
    tune:     of `trtsmith tune --json`; None where nothing was searched.
    problems: all that kept it from being done.
    seconds:  by stage, and "total".
    peak_mib: the most memory that its processes took together, as far as it was seen.
    place:    "host", "gpu" (its name, "" for none), "pid": where it ran; of a retry, the last.
    versions: by package: "trtsmith", "tensorrt" or "tensorrt_rtx", "onnx", "onnxruntime", ...
    began:    in ISO 8601, UTC.
    attempts: how often it was begun.
    unkeyed:  files, variables and programs that it used and of which its key says nothing: it then has none.
    """

    name: str
    model: str
    variant: Mapping[str, str]
    status: TaskStatus
    key: str = ""
    command: tuple[str, ...] = ()
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    report: Mapping[str, Any] | None = None
    bench: Mapping[str, Any] | None = None
    tune: Mapping[str, Any] | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_mib: float = 0.0
    place: Mapping[str, str | int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    began: str = ""
    attempts: int = 1
    unkeyed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns plain data for JSON; "schema" is the version of this form."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {"schema": SCHEMA, **plain}

    @classmethod
    def from_json(cls, text: str | bytes) -> TaskRecord:
        """Parses a record from untrusted text. Raises ValueError.

        The standard parser takes names that are not UTF-8, which msgspec's own does not.
        """
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                raise ValueError(f"its schema is {document['schema']!r}, not {SCHEMA}")
            record: TaskRecord = msgspec.convert(document, cls)
            return record
        except (LookupError, TypeError, ArithmeticError, RecursionError, msgspec.ValidationError) as error:
            raise ValueError(f"{type(error).__name__}: {error}"[:200]) from error


@dataclass(frozen=True)
class TaskEnd:
    """A finished task. folder: its files on this machine, or None; the receiver removes it or moves the files away."""

    task: BatchTask
    record: TaskRecord
    folder: Path | None = None


@dataclass(frozen=True)
class Event:
    """News of a running task. text: a line for people, "" for none; step: its current step; share: the done part of it, from
    0 to 1, None if unknown.
    """

    task: str
    text: str
    step: str = ""
    share: float | None = None
    place: str = ""


EventListener = Callable[[Event], None]


class TaskExecutor(Protocol):
    """Runs tasks, as a context manager: at the end nothing of it is left running."""

    def __enter__(self) -> TaskExecutor: ...

    def __exit__(self, *error: object) -> None: ...

    def machine_of(self, task: BatchTask) -> MachineFacts | None:
        """Returns the machine that a task will run on, for its key; None if unknown. May be called before `run`."""

    def stop(self) -> None:
        """Starts no further tasks and cancels running ones, which `run` then yields before it ends. Safe to call from a
        signal handler or another thread.
        """

    def run(self, tasks: Sequence[BatchTask], listener: EventListener) -> Iterator[TaskEnd]:
        """Yields each task once, as it finishes. May be called again afterwards.

        A task that cannot be done is a record that says so; UsageError where no task can be done, such as without the
        cluster."""


def record_of(task: BatchTask, status: TaskStatus, *problems: Problem, attempts: int = 1) -> TaskRecord:
    """Makes the record of a task that never ran: cancelled, lost, or impossible on its machine."""
    return TaskRecord(
        name=task.name,
        model=task.model,
        variant=dict(task.variant),
        status=status,
        command=task.command,
        problems=problems,
        place={"host": platform.node(), "gpu": "", "pid": 0},
        attempts=attempts,
    )


def cancelled(task: BatchTask) -> Problem:
    return Problem(
        "the task was stopped before its end",
        task.name,
        "a batch that runs to its end",
        "run the same command again to continue",
    )


def is_below(name: str) -> bool:
    """Tells whether a relative path stays inside its folder."""
    parts = PurePosixPath(name).parts
    return bool(parts) and "/" not in parts and ".." not in parts and "\0" not in name
