"""Makes results.json of the entries of its tasks. results.schema.json, beside this file, is its published schema."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.task_row import RUN
from trtsmith.converter.engine.bundle.bundle import toolkit_version

SCHEMA = 1
"""Of results.json. A reader may rely on what the schema of its number requires; entries may be added to it."""

SCHEMA_FILE = Path(__file__).with_name("results.schema.json")

RESULTS = "results.json"


def results_document(
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str = "",
    planned: int | None = None,
    wall_s: float | None = None,
) -> dict[str, Any]:
    """The document of these tasks (task_row), in the order of their names.

    title:   of the pages, such as the zoo's file.
    planned: tasks that there are; more than the entries while some have not ended. None: as many as the entries.
    wall_s:  seconds since the batch began; None if nobody knows.
    """
    tasks = sorted(rows, key=lambda row: str(row["name"]))
    return {
        "schema": SCHEMA,
        "trtsmith": toolkit_version(),
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "title": title,
        "axes": _axes(tasks),
        "summary": {
            "planned": len(tasks) if planned is None else max(planned, len(tasks)),
            "ended": len(tasks),
            "passed": sum(task["passed"] for task in tasks),
            "statuses": dict(sorted(Counter(task["status"] for task in tasks).items())),
            "sources": dict(sorted(Counter(task["source"] for task in tasks).items())),
            "warnings": sum(len(task["warnings"]) for task in tasks),
            "engine_bytes": sum(task["engine"]["bytes"] for task in tasks if task["engine"]),
            "seconds": round(sum(_total(task) for task in tasks if task["source"] == RUN), 3),
            "wall_s": wall_s,
        },
        "tasks": tasks,
    }


def document_text(document: Mapping[str, Any]) -> str:
    """JSON with one task on a line, so that a diff of two files shows tasks; ASCII, whatever names hold."""
    head = {name: value for name, value in document.items() if name != "tasks"}
    lines = ",\n  ".join(json.dumps(task, allow_nan=False) for task in document["tasks"])
    body = f"[\n  {lines}\n ]" if lines else "[]"
    return f'{json.dumps(head, indent=1, allow_nan=False)[:-2]},\n "tasks": {body}\n}}\n'


def _axes(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The axes of the matrix, in the order in which variants have them."""
    return list(dict.fromkeys(axis for task in tasks for axis in task["variant"]))


def _total(task: Mapping[str, Any]) -> float:
    seconds = task["seconds"]
    return float(seconds.get("total", sum(seconds.values())))
