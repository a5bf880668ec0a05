"""Tests the contract of every plugin in a library, and its kernels in every case and dtype."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gpucheck.record import Notes
from gpucheck.references import reader
from trtsmith.converter.plugin.cases import contract_cases, gpu_cases
from trtsmith.converter.plugin.checks.checks_gpu import DIRECT, GPU_CHECKS
from trtsmith.converter.plugin.contract import CheckResult, CheckStatus, GpuCase
from trtsmith.converter.plugin.test import test_library


def check(library: Path, references: Path, notes: Notes) -> None:
    """Failures one by one; of the rest the counts for each plugin, and why something could not be tested."""
    kernels: Counter[str] = Counter()
    kinds: dict[
        tuple[str, str], tuple[str, str, str]
    ] = {}  # by creator and case: operator, types and class of cases
    ran: set[tuple[str, str]] = set()
    failed: set[tuple[str, str]] = set()

    def given(name: str) -> Iterator[GpuCase]:
        for case in gpu_cases(name, reference=reader(references)):
            kinds[name, case.name] = (name, case.name.partition(", ")[2], case.kind)
            yield case

    def progress(result: CheckResult) -> None:
        if result.verdict is CheckStatus.FAIL:
            problem = f"{result.problem.what}; expected {result.problem.expected}" if result.problem else ""
            failed.add((result.creator, result.case))
            notes.failure(f"{result.creator}, {result.check}, {result.case or 'no case'}: {problem}")
        elif result.verdict is CheckStatus.PASS and result.check in GPU_CHECKS:
            kernels[result.creator] += 1
            if result.check == DIRECT:
                ran.add((result.creator, result.case))

    report = test_library(
        library,
        gpu=True,
        definitions=contract_cases(),
        gpu_cases=given,
        progress=progress,
    )
    for name in dict.fromkeys(result.creator for result in report.results):
        mine = [result for result in report.results if result.creator == name]
        verdicts = Counter(result.verdict for result in mine)
        reasons = Counter(f"{r.check}: {r.note}" for r in mine if r.verdict is CheckStatus.NOT_TESTABLE)
        counts = {verdict.value.replace(" ", "_"): verdicts[verdict] for verdict in CheckStatus}
        notes.row(plugin=name, **counts, kernels_passed=kernels[name], reasons=dict(reasons))
        if not kernels[name]:
            notes.failure(f"{name}: no kernel passed")
    cases = Counter(kinds.values())
    right = Counter(kinds[key] for key in ran - failed)
    for (op, types, kind), count in cases.items():
        row = {"op": op, "types": types, "route": f"kernel, {library.stem}", "kind": kind}
        notes.row(**row, cases=count, passed=right[op, types, kind])
    counted = ", ".join(f"{report.count(verdict)} {verdict.value}" for verdict in CheckStatus)
    notes.summary(f"{counted}; {kernels.total()} kernels passed, on {report.gpu}")
