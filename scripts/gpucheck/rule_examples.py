"""Runs every rule's examples as engines: rewritten, built without plugins, and compared with the original's outputs."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpucheck.crew import run_crew
from gpucheck.engine_tables import MATCHED
from gpucheck.engines import open_engine
from gpucheck.node_tests import CASE_S, FORMS, judge_form
from gpucheck.record import Notes
from onnxcoverage.examples import example_case
from tests.rule_examples import examples_of
from trtsmith.converter.rewrite.rules import RULES

PLUGIN = "-plugin"
"""How the names of rules end that put a plugin in a node's place which has no other form: see `without_plugins`."""


def check(folder: Path, limit_s: float, notes: Notes) -> None:
    """The step. One row for each example; fails for any that gives other numbers or no engine that runs."""
    end = time.monotonic() + limit_s
    import onnxruntime  # noqa: F401  imported here once, so that no child has to
    import tensorrt_rtx  # noqa: F401

    rules = [rule for rule in RULES if not rule.name.endswith(PLUGIN)]
    examples = [(rule, example) for rule in rules for example in examples_of(rule)]

    def work(job: str) -> dict[str, Any]:
        rule, example = examples[int(job)]
        inside = folder / f"rule-{job}"
        inside.mkdir()
        case = replace(
            example_case(rule, example, inside), name="case"
        )  # names of examples are no names of files
        return judge_form(case, FORMS["rewritten"](case, inside), open_engine)

    pending = deque(map(str, range(len(examples))))
    counts: Counter[str] = Counter()
    for job, finding in run_crew(pending, work, os.cpu_count() or 1, CASE_S, end, folder):
        rule, example = examples[int(job)]
        died, _, how = finding.died.partition(": ")
        found = finding.found or {"verdict": died, "form": "rewritten", "reason": how}
        notes.row(rule=rule.name, example=example.name, **found)
        counts[found["verdict"]] += 1
        if found["verdict"] not in MATCHED:
            notes.failure(f"{rule.name}, {example.name}: {found['verdict']}: {found['reason']}")
    matched = sum(counts[verdict] for verdict in MATCHED)
    sums = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    notes.summary(f"{matched} of {len(examples)} examples match the original's outputs ({sums})")
