"""Tests every operator in every type without a GPU, and records the results for the evidence matrix.

    python scripts/operator_evidence.py                       # writes benchmarks/operators.json
    python scripts/operator_evidence.py --only RoiAlign       # these operators; others keep their rows

The expansion against the float64 reference (onnxruntime runs it, which computes nothing in bfloat16), and the contract of
both plugin libraries through the plugin host. Kernels, engines and the registries of real TensorRTs have records of their
own: scripts/gpu_check.py and scripts/real_registries.py. Exit code 1 if a case is wrong.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpucheck.plugin_trials import (  # noqa: E402
    Trial,
    TrialComparison,
    model_of,
    trials_of,
)
from harness.run_record import Record, script_parser  # noqa: E402
from trtsmith.converter.base.errors import TrtsmithError  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library, plugin_library_v2  # noqa: E402
from trtsmith.converter.model.load import load_model  # noqa: E402
from trtsmith.converter.model.ort import run  # noqa: E402
from trtsmith.converter.plugin.cases import contract_case, type_choices  # noqa: E402
from trtsmith.converter.plugin.machine import describe  # noqa: E402
from trtsmith.converter.plugin.test import test_library  # noqa: E402
from trtsmith.converter.rewrite.rewrite import expand  # noqa: E402
from trtsmith.importers.opdef import OpDef  # noqa: E402
from trtsmith.importers.registry import OPS  # noqa: E402

RECORD = ROOT / "benchmarks" / "operators.json"
EXPANSION = "reference against expansion"
CONTRACTS = {"contract of IPluginV3": plugin_library, "contract of IPluginV2": plugin_library_v2}


def main(argv: Sequence[str] | None = None) -> int:
    parser = script_parser(__doc__)
    names = [op.name for op in OPS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these operators")
    parser.add_argument("--output", type=Path, default=RECORD, help="the record (default: %(default)s)")
    options = parser.parse_args(argv)
    ops = [op for op in OPS if not options.only or op.name in options.only]
    libraries = [library() for library in CONTRACTS.values()]
    record = Record(options.output, describe(ROOT, libraries, None), names)
    if options.only:
        record.resume(lambda row: str(row["op"]))
    for op in ops:
        record.add(op.name, *rows_of(op))
    failures = [failure for op in ops for row in record.found[op.name] for failure in row.get("failures", [])]
    for failure in failures:
        print(failure, file=sys.stderr)
    right, cases = (sum(row[key] for row in record.rows) for key in ("passed", "cases"))
    print(f"{right} of {cases} are right")
    return 1 if failures else 0


def rows_of(op: OpDef) -> list[dict[str, Any]]:
    """A row for each choice of types, route and class of cases. failures: the faults."""
    rows = []
    for types in type_choices(op):
        trials = tuple(trials_of(op, types))
        if "bfloat16" not in types.values():
            rows += reported(TrialComparison(op, types).report((EXPANSION, expanded(trials))))
        rows += contracts(op, trials)
    print(f"{op.name}: done", file=sys.stderr, flush=True)
    return rows


def reported(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a report, with its failures in the first."""
    first, *others = report["rows"]
    return [first | ({"failures": report["failures"]} if report["failures"] else {}), *others]


def expanded(trials: Iterable[Trial]) -> Iterator[tuple[Trial, Any]]:
    """Runs the engines' graphs in onnxruntime, with the plugin expanded into standard operators."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.onnx"
        for trial in trials:
            onnx.save(model_of((trial,), dynamic=False), path)
            try:
                yield trial, run(expand(load_model(path)), trial.feeds)
            except TrtsmithError as error:
                yield trial, error.problems[0].what


def contracts(op: OpDef, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Runs every check without a kernel, on each case."""
    rows = []
    for (route, library), interface in zip(CONTRACTS.items(), ("V3", "V2"), strict=True):
        if interface not in op.interfaces:
            continue
        cases = {trial.name: contract_case(op, trial.definition, trial.types) for trial in trials}
        report = test_library(library(), gpu=False, definitions=cases.values(), only=op.name)
        failed = {result.case for result in report.failures}
        for kind in dict.fromkeys(trial.case.kind for trial in trials):
            mine = [trial for trial in trials if trial.case.kind == kind]
            wrong = [f"{op.name}, {route}, {trial.name}" for trial in mine if trial.name in failed]
            head = {"op": op.name, "types": trials[0].types_said, "route": route, "kind": kind}
            row = {**head, "cases": len(mine), "passed": len(mine) - len(wrong)}
            rows.append(row | ({"failures": wrong} if wrong else {}))
        if "" in failed:
            rows[-1]["failures"] = [f"{op.name}, {route}: a check without a case failed"]
    return rows


if __name__ == "__main__":
    sys.exit(main())
