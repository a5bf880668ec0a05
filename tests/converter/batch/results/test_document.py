"""results.json follows its published schema, matches its records, and survives any record."""

from __future__ import annotations

import copy
import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.converter.batch.results.sample import (
    HOSTILE_NAMES,
    PROBLEM,
    record,
    report,
    search,
    times,
    write_results,
    zoo,
)
from trtsmith.converter.batch.results.document import (
    MOST_NODES,
    SCHEMA_FILE,
    document_text,
    results_document,
    task_row,
)
from trtsmith.converter.batch.task import TaskRecord, TaskStatus

SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def document(*records: TaskRecord, **more: Any) -> dict[str, Any]:
    """As it is read from the file."""
    made: dict[str, Any] = json.loads(document_text(results_document(map(task_row, records), **more)))
    return made


def test_the_schema_is_one_and_holds_for_every_status() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    found = document(*zoo(40), *(record(f"alone {name}") for name in HOSTILE_NAMES))
    VALIDATOR.validate(found)
    assert set(found["summary"]["statuses"]) == {status.value for status in TaskStatus}


def test_the_schema_wants_every_entry_that_is_written() -> None:
    whole = document(record("a", bench=times(), tune=search(), problems=(PROBLEM,)))
    VALIDATOR.validate(whole)
    for path in paths(whole):
        less = copy.deepcopy(whole)
        place = less
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
        # entries that are named by users, and single figures of a summary of times, may be fewer
        free = {
            *[
                "seconds",
                "versions",
                "place",
                "routes",
                "files",
                "shapes",
                "statuses",
                "sources",
                "latency_ms",
            ]
        }
        wanted = not (free & set(path[:-1])) or path[-1] in ("sha256", "bytes", "median", "p90")
        if isinstance(path[-1], str):
            assert VALIDATOR.is_valid(less) is not wanted, path


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in items:
        yield (*before, name)
        yield from paths(one, (*before, name))


def test_the_figures_of_a_record() -> None:
    (task,) = document(
        record(
            "net/fp16",
            TaskStatus.AGREE,
            {"precision": "fp16"},
            report=report(
                warnings=["b", "a"], used=None, relative=math.inf, routes={"native": 3, "plugin": 0}
            ),
            bench=times(2.0) | {"warnings": ["c"]},
            tune=search(),
            warnings=("a",),
        )
    )["tasks"]
    assert task["warnings"] == ["a", "b", "c"]
    assert task["routes"] == {"native": 3}
    assert task["engine"]["bytes"] == 842_524 and task["engine"]["plugin_layers"] == ["/neck/dcn"]
    assert [(one["relative"], one["used"]) for one in task["verdict"]["outputs"]] == [(None, None)] * 2
    assert task["bench"]["runs"][0]["latency_ms"]["median"] == 2.0
    assert task["tune"] == {"ms": 0.5, "error": 0.002, "default_ms": 0.75, "tried": 2}
    assert (
        task["variant"] == {"precision": "fp16"} and task["page"] == "report.html" and task["nodes"] is None
    )
    assert task["place"] == {"host": "node-1", "gpu": "", "pid": "4242"}


def test_the_routes_of_nodes_are_told_where_a_report_tells_them() -> None:
    nodes = [
        {"name": "/a", "route": "native"},
        {"name": "/b", "route": "plugin"},
        {"name": "", "route": "plugin"},
    ]
    assert task_row(record("a", report=report(nodes=nodes)))["nodes"] == {"/b": "plugin"}
    many = [{"name": f"/{number}", "route": "rewritten"} for number in range(MOST_NODES + 1)]
    assert len(task_row(record("a", report=report(nodes=many[1:])))["nodes"]) == MOST_NODES
    assert task_row(record("a", report=report(nodes=many)))["nodes"] is None


def test_the_summary_counts() -> None:
    records = [
        record("b", TaskStatus.REFUSED),
        record("a"),
        record("c", TaskStatus.TIMEOUT),
        record("d", warnings=("w",)),
    ]
    rows = [task_row(one, "cache" if one.name == "a" else "run") for one in records]
    found = results_document(rows, title="t", planned=9, wall_s=1.5)
    assert [task["name"] for task in found["tasks"]] == ["a", "b", "c", "d"]
    assert found["summary"] == {
        "planned": 9, "ended": 4, "passed": 2, "statuses": {"agree": 2, "refused": 1, "timeout": 1},
        "sources": {"cache": 1, "run": 3}, "warnings": 1, "engine_bytes": 2 * 842_524, "seconds": 9.0, "wall_s": 1.5,
    }  # fmt: skip


def test_a_task_is_one_line() -> None:
    text = document_text(results_document(map(task_row, zoo(3))))
    assert text.isascii() and sum('"model"' in line for line in text.splitlines()) == 24
    assert json.loads(document_text(results_document([])))["tasks"] == []


@pytest.mark.parametrize("seed", range(300))
def test_no_part_of_a_record_stops_it(seed: int) -> None:
    """Records are read from disks and come from other machines: whatever stands in their free parts, the schema holds."""
    draw = random.Random(seed)
    junk: tuple[Any, ...] = (
        None, True, -1, 10**400, math.nan, math.inf, "x", "\ud800", [], [1], [None], {}, {"a": []}, {"": {"b": 1}},
        b"x", ("y",),
    )  # fmt: skip

    def spoilt(value: Any) -> Any:
        if draw.random() < 0.08:
            return draw.choice(junk)
        if isinstance(value, dict):
            return {name: spoilt(one) for name, one in value.items()}
        return [spoilt(one) for one in value] if isinstance(value, list) else value

    whole = record("a", bench=times(), tune=search())
    parts = {
        "report": report(),
        "bench": times(),
        "tune": search(),
        "seconds": {"total": 1.0},
    }
    spoilt_record = replace(whole, **{name: spoilt(part) for name, part in parts.items()})
    VALIDATOR.validate(document(spoilt_record))


def test_the_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_results(tmp_path, [record("a")])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"results.json", "junit.xml", "index.html"}
    (tmp_path / "junit.xml").unlink()
    (tmp_path / "junit.xml").mkdir()
    with pytest.raises(IsADirectoryError, match=r"junit.xml"):
        write_results(tmp_path, [record("b")])
    assert (tmp_path / "index.html").read_bytes() == before["index.html"]
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(FileNotFoundError):
        write_results(tmp_path / "none", [record("b")])


def test_a_thousand_records_are_written_while_a_batch_goes_on(tmp_path: Path) -> None:
    records = list(zoo(125))
    assert len(records) == 1000
    began = time.process_time()
    write_results(tmp_path, iter(records))
    assert time.process_time() - began < 2.0  # it takes 0.1 s
    assert (tmp_path / "index.html").stat().st_size < 3e6
