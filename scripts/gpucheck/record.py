"""Records a step's findings while it runs, and writes the file of all steps."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_FAILURES = 40
"""So many failures of a step go into the file; their number is always there."""


class Notes:
    """The notes of a step; each goes to the file at once, so that a kill loses nothing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def row(self, **values: Any) -> None:
        """Adds one finding. Floats are kept to three digits, as more would not be reproducible."""
        self._write({"row": {name: rounded(value) for name, value in values.items()}})

    def failure(self, text: str) -> None:
        self._write({"failure": text})

    def summary(self, text: str) -> None:
        """Adds the last note of a step that reached its end."""
        self._write({"summary": text})

    def _write(self, note: dict[str, Any]) -> None:
        self._file.write(json.dumps(note) + "\n")
        self._file.flush()


@dataclass
class StepResult:
    """The result of a step. verdict: pass, fail or not run. failures: faults found, or how the step ended."""

    name: str
    verdict: str
    summary: str
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "summary": self.summary,
            "seconds": round(self.seconds, 1),
            "failures": len(self.failures),
            "first_failures": self.failures[:MOST_FAILURES],
            "rows": self.rows,
        }


def passed_before(path: Path | None, head: dict[str, Any]) -> dict[str, StepResult]:
    """The steps of an earlier record that passed, on the same GPU and of the same code."""
    before = json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else {}
    if any(before.get(part) != head.get(part) for part in ("gpu", "rests_on")):
        return {}
    return {
        name: StepResult(name, step["verdict"], step["summary"], step["seconds"], [], step["rows"])
        for name, step in before["steps"].items()
        if step["verdict"] == "pass"
    }


def read_notes(path: Path, name: str, ended: str | None) -> StepResult:
    """The result of a step from its notes. ended: how its process ended if it failed.

    A step passes if it came to its summary, its process ended well and it noted no failure.
    """
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    summary = None
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            note = json.loads(line)
        except json.JSONDecodeError:
            continue  # the line during which the process was killed
        if "row" in note:
            rows.append(note["row"])
        elif "failure" in note:
            failures.append(note["failure"])
        else:
            summary = note["summary"]
    if ended:
        failures.append(ended)
    elif summary is None:
        failures.append("the step ended without its summary")
    verdict = "fail" if failures else "pass"
    return StepResult(name, verdict, summary or ended or "no summary", failures=failures, rows=rows)


def rounded(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else value


def write_record(path: Path, head: dict[str, Any], steps: list[StepResult]) -> None:
    """Replaces the file atomically, with one row a line so that records can be compared."""
    text = json.dumps(head, indent=2)[:-2]
    parts = []
    for step in steps:
        body = step.to_json()
        rows = body.pop("rows")
        inner = json.dumps(body, indent=2)[:-2].replace("\n", "\n    ")
        lines = ",\n".join(f"        {json.dumps(row)}" for row in rows)
        inner += ',\n      "rows": [\n' + lines + "\n      ]" if rows else ',\n      "rows": []'
        parts.append(f"    {json.dumps(step.name)}: {inner}\n    }}")
    text += ',\n  "steps": {\n' + ",\n".join(parts) + "\n  }\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def table(steps: list[StepResult]) -> str:
    """The failures, then one line for each step."""
    lines = []
    for step in steps:
        lines += [f"{step.name}: {failure}" for failure in step.failures[:10]]
        if len(step.failures) > 10:
            lines.append(f"{step.name}: and {len(step.failures) - 10} more")
    width = max((len(step.name) for step in steps), default=0)
    for step in steps:
        lines.append(f"{step.name:<{width}}  {step.verdict:<7}  {step.seconds:6.1f} s  {step.summary}")
    return "\n".join(lines)
