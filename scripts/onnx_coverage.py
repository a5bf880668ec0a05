"""Converts ONNX's own backend node tests for TensorRT-RTX: which build unchanged, which after rewriting, which are right.

    python scripts/onnx_coverage.py --json benchmarks/onnx_coverage.json      # all 1,884
    python scripts/onnx_coverage.py --ops ReduceSum,Squeeze
    python scripts/onnx_coverage.py --cases 'test_layer_norm.*' --sample 20

Three questions for each case: does TensorRT's parser and builder take the model as it is; does it after trtsmith's
rewrite; does the rewritten graph, its plugin nodes expanded, give ONNX's outputs in onnxruntime within the suite's
tolerances. Inputs that TensorRT needs as constants are frozen to the test's values; shape tensors get them through the
profile. Cases that are not about tensors have to be refused with a message. Engines are built for sm86; no GPU is used.
The exit code is 1 if a case crashes or hangs, or is rewritten although it builds as it is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.run_record import script_parser, write_record  # noqa: E402

PACKAGES = ("onnx", "onnxruntime", "tensorrt-rtx")


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--ops", default="", metavar="A,B", help="only cases of these operators")
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases whose names match")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="of those, N at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time (default %(default)s)")
    parser.add_argument(
        "--timeout", type=float, default=60, help="seconds for one step (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record")
    return cover(parser.parse_args(argv))


def cover(options: argparse.Namespace) -> int:
    from harness.jobs import run_jobs
    from onnxcoverage.cases import choose, load_cases, write_cases
    from onnxcoverage.record import CaseOutcome, render, to_json

    started = time.monotonic()
    operators = tuple(op for op in options.ops.split(",") if op)
    cases = choose(load_cases(), operators, options.cases, options.sample, options.seed)
    outcomes = {case.name: CaseOutcome(case.name, case.operator, case.group) for case in cases}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_cases(cases, folder)
        pending = deque(f"as is:{case.name}" for case in cases)
        findings = run_jobs("onnxcoverage.judge", pending, options.jobs, options.timeout, folder)
        for done, (key, finding) in enumerate(findings, 1):
            step, _, case_name = key.partition(":")
            outcome = outcomes[case_name]
            _note(outcome, step, finding)
            if step == "as is":
                pending.append(f"{'rewrite' if outcome.as_is else 'rewrite unfrozen'}:{case_name}")
            elif step.startswith("rewrite") and outcome.changed:
                pending.append(f"build:{case_name}")
            if done % 200 == 0:
                print(f"{done} steps, {time.monotonic() - started:.0f} s", file=sys.stderr)
    results = list(outcomes.values())
    for outcome in results:
        if not outcome.changed and outcome.rewritten == "not run":
            outcome.rewritten = outcome.refused[0] if outcome.as_is and outcome.refused else outcome.as_is
    versions = {package: metadata.version(package) for package in PACKAGES}
    record = to_json(results, versions, time.monotonic() - started)
    write_record(options.json, record, "--json")
    print(render(results, record["summary"]))
    bad = record["summary"]["crashes_or_hangs"] or record["summary"]["rewritten_needlessly"]
    return 1 if bad else 0


def _note(outcome: Any, step: str, finding: Any) -> None:
    """Puts a step's finding into the outcome."""
    found = finding.found
    if step == "as is":
        outcome.as_is = finding.died or found["reason"]
    elif step == "build":
        outcome.rewritten = finding.died or found["reason"]
    elif finding.died:
        outcome.rewritten = outcome.numbers = f"trtsmith {finding.died}"
    else:
        outcome.changed, outcome.told, outcome.frozen = found["changed"], found["told"], found["frozen"]
        outcome.numbers, outcome.by = found["numbers"], found.get("by", "")
        outcome.refused, outcome.met = found["problems"], found.get("met", {})


if __name__ == "__main__":
    sys.exit(main())
