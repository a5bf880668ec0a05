"""Runs every rule's examples as engines: rewritten, built, and compared with the original's outputs."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpucheck.engine_tables import MATCHED
from gpucheck.engines import open_engine
from gpucheck.node_tests import CASE_S, FORMS, judge_form
from gpucheck.record import Notes
from harness.jobs import run_jobs
from onnxcoverage.examples import example_case
from tests.rule_examples import examples_of
from trtsmith.converter.rewrite.rules import RULES

WORKER = __name__
"""The module whose `work` runs in the workers."""


def check(folder: Path, limit_s: float, notes: Notes) -> None:
    """Runs the step. One row for each example; fails for wrong numbers or an engine that does not run."""
    end = time.monotonic() + limit_s
    examples = {
        f"{rule.name}:{number}": (rule, example)
        for rule in RULES
        for number, example in enumerate(examples_of(rule))
    }
    counts: Counter[str] = Counter()
    for job, finding in run_jobs(WORKER, deque(examples), os.cpu_count() or 1, CASE_S, folder, end):
        rule, example = examples[job]
        found = finding.verdict(form="rewritten")
        notes.row(rule=rule.name, example=example.name, **found)
        counts[found["verdict"]] += 1
        if found["verdict"] not in MATCHED:
            notes.failure(f"{rule.name}, {example.name}: {found['verdict']}: {found['reason']}")
    matched = sum(counts[verdict] for verdict in MATCHED)
    sums = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    notes.summary(f"{matched} of {len(examples)} examples match the original's outputs ({sums})")


def work(job: str, folder: Path) -> dict[str, Any]:
    """Checks an example in a worker, given its rule's name and its number among the rule's examples."""
    name, _, number = job.partition(":")
    (rule,) = [rule for rule in RULES if rule.name == name]
    inside = folder / f"rule-{name}-{number}"
    inside.mkdir()
    # names of examples are no names of files
    case = replace(example_case(rule, examples_of(rule)[int(number)], inside), name="case")
    return judge_form(case, FORMS["rewritten"](case, inside), open_engine)
