"""The outcome of one task: the JSON that stands beside its engine, and of which every page and report is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

from trtsmith.importers.problem import Problem

RECORD = "record.json"
"""The record's file in a task's folder: written last, so that a folder with one is complete."""

SCHEMA = 1


class TaskStatus(str, Enum):
    """How a task ended."""

    AGREE = "agree"
    """Converted, and the numbers agree."""
    CONVERTED = "converted"
    """Converted; no comparison was asked for."""
    DISAGREE = "disagree"
    """Converted; the numbers disagree, or could not be compared (the verdict says which)."""
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
        """Whether there is an engine that nothing speaks against."""
        return self in (TaskStatus.AGREE, TaskStatus.CONVERTED)

    @property
    def settled(self) -> bool:
        """Whether the same task would end the same way again: it is kept, cached, and not done again."""
        return self in (TaskStatus.AGREE, TaskStatus.CONVERTED, TaskStatus.DISAGREE, TaskStatus.REFUSED)


@dataclass(frozen=True)
class FileFacts:
    """A file of a task's folder. sha256: in hexadecimal, without a prefix."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class TaskRecord:
    """What came of one task.

    key:      of the cache; "" of a task that is none's (see BatchTask.hashed).
    command:  the command line that does the same by hand, as a list of words.
    files:    of the task's folder, by name, but for the record itself.
    report:   what `trtsmith convert --report` writes (trtsmith.converter.convert.reports); None where it got not so far.
    bench:    what `trtsmith bench --json` prints; None where nothing was timed.
    problems: all that kept it from being done.
    seconds:  by stage, and "total".
    peak_mib: the most memory that its processes took together, as far as it was seen.
    place:    "host", "gpu" (its name, "" for none), "pid": where it ran; of a retry, the last.
    versions: by package: "trtsmith", "tensorrt" or "tensorrt_rtx", "onnx", "onnxruntime", ...
    began:    in ISO 8601, UTC.
    attempts: how often it was begun.
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
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_mib: float = 0.0
    place: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    began: str = ""
    attempts: int = 1

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, parts of which are the record's own; "schema" is the version of this form."""
        document: dict[str, Any] = {"schema": SCHEMA} | vars(self)
        document["status"] = self.status.value
        document["files"] = {name: asdict(facts) for name, facts in self.files.items()}
        document["problems"] = [problem.to_json() for problem in self.problems]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TaskRecord:
        """The record in a document. Raises ValueError, LookupError or TypeError for anything else."""
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}, not {SCHEMA}")
        given = {name: document[name] for name in cls.__dataclass_fields__}
        given["status"] = TaskStatus(given["status"])
        given["files"] = {str(name): FileFacts(**facts) for name, facts in given["files"].items()}
        given["problems"] = tuple(Problem(**problem) for problem in given["problems"])
        given["command"], given["warnings"] = tuple(given["command"]), tuple(given["warnings"])
        return cls(**given)


def is_below(name: str) -> bool:
    """Whether a path leads to something in the folder that it is relative to."""
    parts = PurePosixPath(name).parts
    return bool(parts) and "/" not in parts and ".." not in parts and "\0" not in name
