"""The contract of every plugin in a library, and its kernels in every case and dtype."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from converter.plugin.cases import contract_cases, gpu_cases
from converter.plugin.checks_gpu import GPU_CHECKS
from converter.plugin.contract import CheckResult, Verdict
from converter.plugin.test import test_library
from gpucheck.record import Notes
from gpucheck.references import reader


def check(library: Path, references: Path, notes: Notes) -> None:
    """A row for each kernel that ran; of the contract only what failed or could not be tested, and the counts."""
    kernels = 0

    def progress(result: CheckResult) -> None:
        nonlocal kernels
        if result.verdict is Verdict.FAIL:
            problem = f"{result.problem.what}; expected {result.problem.expected}" if result.problem else ""
            notes.failure(f"{result.creator}, {result.check}, {result.case or 'no case'}: {problem}")
        is_kernel = result.check in GPU_CHECKS
        kernels += is_kernel and result.verdict is Verdict.PASS
        if is_kernel or result.verdict is not Verdict.PASS:
            notes.row(
                plugin=result.creator,
                check=result.check,
                case=result.case,
                verdict=result.verdict.value,
                note=result.note,
            )

    report = test_library(
        library,
        gpu=True,
        definitions=contract_cases(),
        gpu_cases=partial(gpu_cases, reference=reader(references)),
        progress=progress,
    )
    if not kernels:
        notes.failure("no kernel ran")
    counts = ", ".join(f"{report.count(verdict)} {verdict.value}" for verdict in Verdict)
    notes.summary(f"{counts}; {kernels} of them kernels, on {report.gpu}")
