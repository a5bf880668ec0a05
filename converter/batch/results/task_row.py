"""Makes the entry of results.json for one task: the figures of its record that tables, differences and CI systems need.

The record itself stays beside the engine. Its report and bench are as long as the model has outputs, inputs and layers; an
entry has the few of them that tell one result from another. Records come from disks and other machines: a part that is not
as the code of this version writes it is left out, and never stops a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trtsmith.converter.batch.task_record import TaskRecord, TaskStatus

RUN, CACHE, KEPT = SOURCES = ("run", "cache", "kept")
"""Where a result comes from: the task was run; the cache had it; the folder had it from an earlier call."""

PAGE = "report.html"
"""The page of one conversion, where a task's folder has one."""

MOST_NODES = 100
"""Of a task, whose routes an entry tells: a network may have thousands of nodes that are written otherwise, a zoo a thousand
networks, and the file is written every few seconds. The record beside the engine has all."""

LATENCY = ("count", "min", "median", "mean", "p90", "p99", "max", "variation")
"""Figures of a timed run (trtsmith.converter.bench.figures.Summary) that an entry keeps."""


def task_row(record: TaskRecord, source: str = RUN) -> dict[str, Any]:
    """The entry of a task. source: one of SOURCES. docs/reference/batch-results.md says what each part is."""
    report, bench = _mapping(record.report), _mapping(record.bench)
    verdict = _mapping(report.get("verdict"))
    status = TaskStatus(record.status)
    return {
        "name": str(record.name),
        "model": str(record.model),
        "variant": _texts_by_name(record.variant),
        "status": status.value,
        "passed": status.passed,
        "source": source,
        "began": str(record.began),
        "attempts": int(_number(record.attempts) or 0),
        "seconds": _numbers_by_name(record.seconds),
        "peak_mib": _number(record.peak_mib) or 0.0,
        "place": _texts_by_name(record.place),
        "versions": _texts_by_name(record.versions),
        "command": _texts(record.command),
        "problems": [
            {part: str(said) for part, said in problem.to_json().items()} for problem in record.problems
        ],
        "warnings": _warnings(record, report, verdict, bench),
        "engine": _engine(_mapping(report.get("engine"))),
        "routes": {name: count for name, count in _numbers_by_name(report.get("routes")).items() if count},
        "nodes": _nodes(report.get("nodes")),
        "verdict": _verdict(verdict) if verdict else None,
        "bench": _bench(bench) if bench else None,
        "files": {
            str(name): {"sha256": str(facts.sha256), "bytes": int(_number(facts.bytes) or 0)}
            for name, facts in record.files.items()
        },
        "page": PAGE if PAGE in record.files else None,
    }


def _warnings(
    record: TaskRecord, report: Mapping[str, Any], verdict: Mapping[str, Any], bench: Mapping[str, Any]
) -> list[str]:
    """Each once: a conversion's warnings hold those of its stages."""
    places = (record.warnings, report.get("warnings"), verdict.get("warnings"), bench.get("warnings"))
    return list(dict.fromkeys(text for place in places for text in _texts(place)))


def _engine(engine: Mapping[str, Any]) -> dict[str, Any] | None:
    size = _number(engine.get("size"))
    if size is None:
        return None
    return {
        "bytes": int(size),
        "flavour": _text(engine.get("flavour")),
        "version": _text(engine.get("version")),
        "targets": _texts(engine.get("targets")),
        "layers": int(_number(engine.get("layers")) or 0),
        "plugin_layers": _texts(engine.get("plugin_layers")),
    }


def _nodes(nodes: Any) -> dict[str, str] | None:
    """The route of every node that is not native, by the node's name; None where a report does not tell, or of too many."""
    if not isinstance(nodes, list | tuple):
        return None
    found = (_mapping(node) for node in nodes)
    routes = {_text(node.get("name") or node.get("node")): _text(node.get("route")) for node in found}
    told = {name: route for name, route in routes.items() if name and route not in ("", "native")}
    return told if len(told) <= MOST_NODES else None


def _verdict(verdict: Mapping[str, Any]) -> dict[str, Any]:
    known = _items(verdict.get("comparisons"))
    return {
        "status": _text(verdict.get("status")),
        "reason": _text(verdict.get("reason")),
        "engine_run": verdict.get("engine_run") is True,
        "inputs": _text(verdict.get("inputs")),
        "not_run": _text(verdict.get("not_run")),
        "outputs": [
            {
                "output": _text(one.get("output")),
                "at": _text(one.get("at")),
                "dtype": _text(one.get("dtype")),
                "agrees": one.get("agrees") is True,
                "reason": _text(one.get("reason")),
                "relative": _number(one.get("relative")),
                "used": _number(one.get("used")),
            }
            for one in map(_mapping, known)
        ],
        "left_out": [
            {
                "output": _text(one.get("output")),
                "why": _text(one.get("why")),
                "accepted": one.get("accepted") is True,
            }
            for one in map(_mapping, _items(verdict.get("left_out")))
        ],
    }


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _bench(bench: Mapping[str, Any]) -> dict[str, Any]:
    known = _items(bench.get("runs"))
    return {
        "gpu": _text(bench.get("gpu")),
        "driver": _text(bench.get("driver")),
        "runs": [made for one in known if (made := _run(_mapping(one))) is not None],
    }


def _run(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """A run that was timed; None for one that was not possible."""
    latency = _numbers_by_name(run.get("latency_ms"))
    if not 0 < latency.get("median", 0) <= latency.get("p90", 0):
        return None
    shapes = _mapping(run.get("shapes"))
    return {
        "point": _text(run.get("point")),
        "shapes": {str(name): _sizes(dims) for name, dims in shapes.items()},
        "cuda_graph": run.get("cuda_graph") is True,
        "streams": int(_number(run.get("streams")) or 1),
        "transfers": run.get("transfers") is True,
        "throughput": _number(run.get("throughput")),
        "latency_ms": {name: latency[name] for name in LATENCY if name in latency},
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def _sizes(value: Any) -> list[int]:
    return [one for one in value if type(one) is int] if isinstance(value, list | tuple) else []


def _number(value: Any) -> float | None:
    """A number that JSON and browsers hold, and not below zero: so are all sizes, counts, times and errors."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < 1e300 else None


def _numbers_by_name(value: Any) -> dict[str, float]:
    known = ((str(name), _number(one)) for name, one in _mapping(value).items())
    return {name: one for name, one in known if one is not None}


def _texts_by_name(value: Any) -> dict[str, str]:
    return {
        str(name): str(one) for name, one in _mapping(value).items() if isinstance(one, str | int | float)
    }
