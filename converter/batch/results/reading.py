"""Reads results.json, which others may have written: a document that is not what we write is refused in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.document import RESULTS, SCHEMA
from trtsmith.converter.batch.results.task_result import BatchResults, ComparedOutput, TaskResult, TimedRun
from trtsmith.converter.batch.task_record import TaskStatus
from trtsmith.converter.engine.bundle.manifest import flag, items, mapping, read_document, text
from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem


def load_results(path: Path) -> BatchResults:
    """The results of a batch. path: its folder, or its results.json. UsageError for anything else."""
    file = path / RESULTS if path.is_dir() else path
    try:
        return _results(str(path), read_document(file))
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
        raise UsageError(
            Problem(
                f"the results of a batch cannot be read: {said if len(said) <= 300 else said[:297] + '...'}",
                str(file),
                f"the {RESULTS} that `trtsmith batch` wrote, or the folder with it",
                "correct the path, or run the batch again with this version of trtsmith",
            )
        ) from error


def _results(origin: str, document: Mapping[str, Any]) -> BatchResults:
    if document["schema"] != SCHEMA:
        raise ValueError(f"its schema is {document['schema']!r}, and this version reads {SCHEMA}")
    tasks: dict[str, TaskResult] = {}
    for entry in items(document["tasks"]):
        task = _task(mapping(entry))
        if task.name in tasks:
            raise ValueError(f"two of its tasks are called {task.name!r}")
        tasks[task.name] = task
    planned = max(int(_number(mapping(document["summary"])["planned"])), len(tasks))
    return BatchResults(origin, _text(document["title"]), _text(document["written"]), planned, tasks)


def _task(entry: Mapping[str, Any]) -> TaskResult:
    verdict = None if entry["verdict"] is None else mapping(entry["verdict"])
    engine = None if entry["engine"] is None else mapping(entry["engine"])
    nodes = entry["nodes"]
    outputs = [] if verdict is None else [_output(mapping(one)) for one in items(verdict["outputs"])]
    return TaskResult(
        name=_text(entry["name"]),
        status=TaskStatus(_text(entry["status"])),
        verdict="" if verdict is None else _text(verdict["status"]),
        engine_run=verdict is not None and flag(verdict["engine_run"]),
        errors=dict(outputs),
        bytes=None if engine is None else int(_number(engine["bytes"])),
        routes={_text(name): _number(count) for name, count in mapping(entry["routes"]).items()},
        nodes=None if nodes is None else _by_name(nodes),
        plugin_layers=() if engine is None else tuple(map(_text, items(engine["plugin_layers"]))),
        runs={} if entry["bench"] is None else _runs(mapping(entry["bench"])),
        warnings=tuple(map(_text, items(entry["warnings"]))),
        problems=tuple(_text(mapping(one)["what"]) for one in items(entry["problems"])),
        command=tuple(map(_text, items(entry["command"]))),
        versions=_by_name(entry["versions"]),
    )


def _output(one: Mapping[str, Any]) -> tuple[str, ComparedOutput]:
    at = _text(one["at"])
    relative, used = (None if one[name] is None else _number(one[name]) for name in ("relative", "used"))
    error = ComparedOutput(flag(one["agrees"]), _text(one["dtype"]), relative, used)
    return f"{_text(one['output'])}{at and ' at ' + at}", error


def _runs(bench: Mapping[str, Any]) -> dict[str, TimedRun]:
    gpu, driver = _text(bench["gpu"]), _text(bench["driver"])
    found = {}
    for one in map(mapping, items(bench["runs"])):
        latency = mapping(one["latency_ms"])
        median, p90 = _number(latency["median"]), _number(latency["p90"])
        if not 0 < median <= p90:
            raise ValueError(f"a latency of {median} ms with a 90th percentile of {p90} ms is none")
        found[_what(one)] = TimedRun(median, p90, gpu, driver)
    return found


def _what(run: Mapping[str, Any]) -> str:
    """All that two runs must have in common to be compared, as people read it."""
    shapes = [
        f"{_text(name)} {'x'.join(str(int(_number(size))) for size in items(dims)) or 'scalar'}"
        for name, dims in mapping(run["shapes"]).items()
    ]
    streams = int(_number(run["streams"]))
    parts = [
        " ".join([_text(run["point"]), *shapes]),
        "with CUDA graph" if flag(run["cuda_graph"]) else "",
        f"{streams} streams" if streams > 1 else "",
        "" if flag(run["transfers"]) else "no transfers",
    ]
    return ", ".join(part for part in parts if part)


def _number(value: Any) -> float:
    """A finite number, and not below zero: so are all that differences look at."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{str(value)[:80]!r} is not a number")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{value} is not a size, a count or an error")
    return value


def _text(value: Any) -> str:
    """A string. What paths on disk hold beside UTF-8 comes as lone surrogates, which are no less a name."""
    return value if isinstance(value, str) else text(value)


def _by_name(value: Any) -> dict[str, str]:
    return {_text(name): _text(one) for name, one in mapping(value).items()}
