"""Writes and reads results.json, made from the tasks' records; results.schema.json is its published schema.

The record itself stays beside the engine. Its report and bench are as long as the model has outputs, inputs and layers; an
entry has the few of them that tell one result from another. Records come from disks and other machines: a part that is not
as the code of this version writes it is left out, and never stops a batch.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.batch.task import FileFacts, TaskRecord, TaskStatus
from trtsmith.converter.engine.bundle.bundle import toolkit_version
from trtsmith.converter.engine.bundle.manifest import read_document
from trtsmith.importers.problem import Problem

SCHEMA = 1
"""Of results.json. A reader may rely on what the schema of its number requires; entries may be added to it."""

SCHEMA_FILE = Path(__file__).with_name("results.schema.json")

RESULTS = "results.json"

RUN, CACHE, KEPT = SOURCES = ("run", "cache", "kept")
"""Where a result comes from: the task was run; the cache had it; the folder had it from an earlier call."""

PAGE, SEARCH_PAGE = "report.html", "tune.html"
"""The pages of one conversion and of the search before it, where a task's folder has them."""

MOST_NODES = 100
"""Of a task, whose routes an entry tells: a network may have thousands of nodes that are written otherwise, a zoo a thousand
networks, and the file is written every few seconds. The record beside the engine has all."""

LATENCY = ("count", "min", "median", "mean", "p90", "p99", "max", "variation")
"""Figures of a timed run (trtsmith.converter.bench.timing.Summary) that an entry keeps."""

T = TypeVar("T")

Figure = Annotated[float, msgspec.Meta(ge=0, lt=1e300)]
"""A number that JSON and browsers hold, and not below zero: so are all sizes, counts, times and errors."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class EngineRow(msgspec.Struct, frozen=True):
    bytes: Count
    flavour: str = ""
    version: str = ""
    targets: tuple[str, ...] = ()
    layers: Count = 0
    plugin_layers: tuple[str, ...] = ()


class OutputRow(msgspec.Struct, frozen=True):
    """The comparison of one output. relative: ratio of norms, None where infinite. used: share of the tolerance, if
    known.
    """

    output: str
    agrees: bool
    at: str = ""
    dtype: str = ""
    reason: str = ""
    relative: Figure | None = None
    used: Figure | None = None

    @property
    def name(self) -> str:
        return f"{self.output}{self.at and ' at ' + self.at}"


class LeftOutRow(msgspec.Struct, frozen=True):
    output: str
    why: str = ""
    accepted: bool = False


class VerdictRow(msgspec.Struct, frozen=True):
    status: str
    reason: str = ""
    advice: str = ""
    engine_run: bool = False
    inputs: str = ""
    not_run: str = ""
    basis: tuple[str, ...] = ()
    outputs: tuple[OutputRow, ...] = ()
    left_out: tuple[LeftOutRow, ...] = ()


class RunRow(msgspec.Struct, frozen=True):
    point: str
    latency_ms: dict[str, Figure]
    shapes: dict[str, tuple[int, ...]] = {}
    cuda_graph: bool = False
    streams: Count = 1
    transfers: bool = False
    throughput: Figure | None = None

    def __post_init__(self) -> None:
        if not 0 < self.latency_ms.get("median", 0) <= self.latency_ms.get("p90", 0):
            raise ValueError(f"a latency of {self.latency_ms} ms is none")

    @property
    def what(self) -> str:
        """The properties that two runs must share to be comparable, in words."""
        shapes = [f"{name} {'x'.join(map(str, sizes)) or 'scalar'}" for name, sizes in self.shapes.items()]
        parts = [
            " ".join([self.point, *shapes]),
            "with CUDA graph" if self.cuda_graph else "",
            f"{self.streams} streams" if self.streams > 1 else "",
            "" if self.transfers else "no transfers",
        ]
        return ", ".join(part for part in parts if part)


class BenchRow(msgspec.Struct, frozen=True):
    gpu: str = ""
    driver: str = ""
    runs: tuple[RunRow, ...] = ()


class TuneRow(msgspec.Struct, frozen=True):
    """The search of `trtsmith tune`. ms, error: of the engine that it found. default_ms: of the engine that `convert`
    makes without a search, None where it made none. tried: how many engines.
    """

    ms: Figure
    error: Figure
    default_ms: Figure | None = None
    tried: Count = 0


class TaskRow(msgspec.Struct, frozen=True):
    """An entry of results.json. docs/reference/batch-results.md defines each part."""

    name: str
    model: str
    variant: dict[str, str]
    status: TaskStatus
    passed: bool
    source: str
    began: str
    attempts: Count
    seconds: dict[str, Figure]
    peak_mib: Figure
    place: dict[str, str]
    versions: dict[str, str]
    command: tuple[str, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    engine: EngineRow | None
    routes: dict[str, Figure]
    nodes: dict[str, str] | None
    verdict: VerdictRow | None
    bench: BenchRow | None
    files: dict[str, FileFacts]
    page: str | None
    tune: TuneRow | None = None


def task_row(record: TaskRecord, source: str = RUN) -> dict[str, Any]:
    """Makes the entry of a task, as plain data. source: one of SOURCES."""
    report, bench = _mapping(record.report), _mapping(record.bench)
    engine, verdict = _mapping(report.get("engine")), _mapping(report.get("verdict"))
    search = _mapping(record.tune)
    routes = _part(report.get("routes"), dict[str, Figure]) or {}
    row = TaskRow(
        name=record.name,
        model=record.model,
        variant=dict(record.variant),
        status=record.status,
        passed=record.status.passed,
        source=source,
        began=record.began,
        attempts=record.attempts,
        seconds=_part(record.seconds, dict[str, Figure]) or {},
        peak_mib=_part(record.peak_mib, Figure) or 0.0,
        place={name: str(value) for name, value in record.place.items()},
        versions=dict(record.versions),
        command=record.command,
        problems=record.problems,
        warnings=warnings_of(record),
        engine=_part({**engine, "bytes": engine.get("size")}, EngineRow),
        routes={name: count for name, count in routes.items() if count},
        nodes=_nodes(report.get("nodes")),
        verdict=_part({**verdict, "outputs": verdict.get("comparisons")}, VerdictRow) if verdict else None,
        bench=_bench(bench) if bench else None,
        files=dict(record.files),
        page=PAGE if PAGE in record.files else None,
        tune=_part(
            {
                **_mapping(search.get("best")),
                "default_ms": _mapping(search.get("default")).get("ms"),
                "tried": len(_part(search.get("trials"), list[Any]) or ()),
            },
            TuneRow,
        ),
    )
    plain: dict[str, Any] = msgspec.to_builtins(row)
    return plain


def warnings_of(record: TaskRecord) -> tuple[str, ...]:
    """Returns the warnings of a task's conversion, comparison and timing, each once."""
    report = _mapping(record.report)
    parts = (report, _mapping(report.get("verdict")), _mapping(record.bench))
    warned = (record.warnings, *(part.get("warnings") for part in parts))
    return tuple(dict.fromkeys(text for part in warned for text in _part(part, tuple[str, ...]) or ()))


def _bench(bench: Mapping[str, Any]) -> BenchRow:
    """With the runs that were timed; there are others, which were not possible."""
    runs = bench.get("runs")
    found = [
        _part(
            {**run, "latency_ms": {k: v for k, v in _mapping(run.get("latency_ms")).items() if k in LATENCY}},
            RunRow,
        )
        for run in map(_mapping, runs if isinstance(runs, list | tuple) else ())
    ]
    said = _part({**bench, "runs": None}, BenchRow) or BenchRow()
    return BenchRow(said.gpu, said.driver, tuple(run for run in found if run is not None))


def _nodes(nodes: Any) -> dict[str, str] | None:
    """The route of every node that is not native, by the node's name; None where a report does not tell, or of too many."""
    if not isinstance(nodes, list | tuple):
        return None
    routes = ((node.get("name") or node.get("node"), node.get("route")) for node in map(_mapping, nodes))
    told = {name: route for name, route in routes if name and route not in (None, "", "native")}
    return _part(told, dict[str, str]) if len(told) <= MOST_NODES else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _part(value: Any, kind: type[T]) -> T | None:
    """A part of a report; None where it is not what this version writes. What a report leaves open is left out."""
    try:
        return msgspec.convert(_known(value), kind)
    except (ValueError, OverflowError, RecursionError):
        return None


def _known(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _known(one) for name, one in value.items() if one not in (None, math.inf, -math.inf)}
    return [_known(one) for one in value] if isinstance(value, list | tuple) else value


def results_document(
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    planned: int | None = None,
    wall_s: float | None = None,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Makes the document of these tasks (task_row), in the order of their names.

    title:   of the pages, such as the zoo's file.
    planned: all tasks; more than the entries while some have not ended. None: as many as the entries.
    wall_s:  seconds since the batch began; None if unknown.
    warnings: of the batch, such as of shapes that it guessed; those of tasks are in their entries.
    """
    tasks = sorted(rows, key=lambda row: str(row["name"]))
    seconds = (task["seconds"] for task in tasks if task["source"] == RUN)
    return {
        "schema": SCHEMA,
        "trtsmith": toolkit_version(),
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "title": title,
        "warnings": list(warnings),
        "axes": list(dict.fromkeys(axis for task in tasks for axis in task["variant"])),
        "summary": {
            "planned": len(tasks) if planned is None else max(planned, len(tasks)),
            "ended": len(tasks),
            "passed": sum(task["passed"] for task in tasks),
            "statuses": dict(sorted(Counter(task["status"] for task in tasks).items())),
            "sources": dict(sorted(Counter(task["source"] for task in tasks).items())),
            "warnings": sum(len(task["warnings"]) for task in tasks),
            "engine_bytes": sum(task["engine"]["bytes"] for task in tasks if task["engine"]),
            "seconds": round(sum(one.get("total", sum(one.values())) for one in seconds), 3),
            "wall_s": wall_s,
        },
        "tasks": tasks,
    }


def document_text(document: Mapping[str, Any]) -> str:
    """Writes JSON with one task on a line, so that a diff of two files shows tasks; ASCII, whatever names hold."""
    head = {name: value for name, value in document.items() if name != "tasks"}
    lines = ",\n  ".join(json.dumps(task, allow_nan=False) for task in document["tasks"])
    body = f"[\n  {lines}\n ]" if lines else "[]"
    return f'{json.dumps(head, indent=1, allow_nan=False)[:-2]},\n "tasks": {body}\n}}\n'


class _Summary(msgspec.Struct, frozen=True):
    planned: Count


class BatchResults(msgspec.Struct, frozen=True):
    """The content of a results.json. title: the zoo's. summary.planned: number of tasks, finished or not. origin:
    its path.
    """

    schema: Literal[1]
    title: str
    written: str
    summary: _Summary
    tasks: tuple[TaskRow, ...]
    origin: str = ""

    @property
    def by_name(self) -> dict[str, TaskRow]:
        return {task.name: task for task in self.tasks}

    @property
    def planned(self) -> int:
        return max(self.summary.planned, len(self.tasks))


def load_results(path: Path) -> BatchResults:
    """Reads the results of a batch. path: its folder, or its results.json. Raises UsageError for anything else."""
    file = path / RESULTS if path.is_dir() else path
    try:
        results = msgspec.convert({**read_document(file), "origin": str(path)}, BatchResults)
        if len(results.by_name) != len(results.tasks):
            raise ValueError("two of its tasks have one name")
        return results
    except (OSError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
        raise UsageError(
            f"the results of a batch cannot be read: {said if len(said) <= 300 else said[:297] + '...'}",
            str(file),
            f"the {RESULTS} that `trtsmith batch` wrote, or the folder with it",
            "correct the path, or run the batch again with this version of trtsmith",
        ) from error
