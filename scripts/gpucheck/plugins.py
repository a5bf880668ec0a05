"""Tests the contract of every plugin in a library, and its kernels in every case and dtype."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from gpucheck.record import Notes
from gpucheck.references import reader
from trtsmith.converter.engine.libraries import plugin_library, plugin_library_v2
from trtsmith.converter.plugin.cases import contract_cases, gpu_cases
from trtsmith.converter.plugin.checks.checks_gpu import DIRECT, GPU_CHECKS
from trtsmith.converter.plugin.contract import CheckResult, CheckStatus, GpuCase, LibraryReport
from trtsmith.converter.plugin.host.host import Host
from trtsmith.converter.plugin.test import test_library
from trtsmith.importers.opdef import OpDef

AT_ONCE = max((os.cpu_count() or 1) // 3, 1)
"""Plugins that are tested side by side: for each, a child runs it and a thread here compares."""


def check_v3(folder: Path, notes: Notes, ops: Sequence[OpDef]) -> None:
    check(plugin_library(), folder, notes, [op.name for op in ops])


def check_v2(folder: Path, notes: Notes, ops: Sequence[OpDef]) -> None:
    check(plugin_library_v2(), folder, notes, [op.name for op in ops])


def check(library: Path, references: Path, notes: Notes, operators: Sequence[str]) -> None:
    """Runs the step. Notes each failure, the counts for each plugin, and why something could not be tested."""
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
        if result.verdict in (CheckStatus.FAIL, CheckStatus.ADVICE):
            problem = f"{result.problem.what}; expected {result.problem.expected}" if result.problem else ""
            failed.add((result.creator, result.case))
            notes.failure(f"{result.creator}, {result.check}, {result.case or 'no case'}: {problem}")
        elif result.verdict is CheckStatus.PASS and result.check in GPU_CHECKS:
            kernels[result.creator] += 1
            if result.check == DIRECT:
                ran.add((result.creator, result.case))

    definitions = tuple(contract_cases())

    def tested(name: str) -> LibraryReport:
        return test_library(
            library, gpu=True, only=name, definitions=definitions, gpu_cases=given, progress=progress
        )

    verdicts: Counter[CheckStatus] = Counter()
    gpu = None
    # Each has a child process of its own, which does most of the work; what it found is noted when it is done.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {pool.submit(tested, name): name for name in creators_of(library) if name in operators}
        for future in as_completed(futures):
            name, report = futures[future], future.result()
            gpu = report.gpu
            mine = Counter(result.verdict for result in report.results)
            verdicts += mine
            reasons = Counter(
                f"{r.check}: {r.note}" for r in report.results if r.verdict is CheckStatus.NOT_TESTABLE
            )
            counts = {verdict.value.replace(" ", "_"): mine[verdict] for verdict in CheckStatus}
            notes.row(plugin=name, **counts, kernels_passed=kernels[name], reasons=dict(reasons))
            if not kernels[name]:
                notes.failure(f"{name}: no kernel passed")
            # Copies: the threads of other plugins go on adding.
            cases = {key: said for key, said in kinds.copy().items() if key[0] == name}
            right = Counter(said for key, said in cases.items() if key in ran and key not in failed)
            for (op, types, kind), count in Counter(cases.values()).items():
                row = {"op": op, "types": types, "route": f"kernel, {library.stem}", "kind": kind}
                notes.row(**row, cases=count, passed=right[op, types, kind])
    counted = ", ".join(f"{verdicts[verdict]} {verdict.value}" for verdict in CheckStatus)
    notes.summary(f"{counted}; {kernels.total()} kernels passed, on {gpu}")


def creators_of(library: Path) -> list[str]:
    """The names of the library's plugins."""
    with Host().open(library) as opened:
        return [str(creator.info.name) for creator in opened.creators]
