"""Tests every creator of a plugin library against TensorRT's contract, and its kernels if there is a GPU.

Every check runs in a child process: a plugin that crashes or hangs fails that check, and the next check gets a new
child. The definitions of known plugins come in as ContractCases; of an unknown plugin what can be found out is
tested, and the rest is reported as not testable.
"""

# The file and the function are named for testing plugins; neither is a pytest test.
# ruff: noqa: PT028

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.plugin.checks.checks_gpu import GPU_CHECKS, checks_of
from trtsmith.converter.plugin.contract import CheckResult, CheckStatus, ContractCase, GpuCase, LibraryReport
from trtsmith.converter.plugin.host.host_worker import (
    LibraryWorker,
    WorkerDiedError,
    WorkerTimeoutError,
    creator_index,
)
from trtsmith.converter.plugin.test_worker import ADVICE, CHECKS
from trtsmith.importers.problem import Problem

__all__ = ["CheckResult", "CheckStatus", "ContractCase", "GpuCase", "LibraryReport", "test_library"]

GpuCases = Callable[[str], Iterable[GpuCase]]
"""The kernel cases of a plugin, by its name."""

UNLOAD = "unloading"
PATIENCE = 2
"""Checks of one plugin that may run out of time before the others are not tried any more."""


def test_library(
    path: str | Path,
    *,
    gpu: bool | None = None,
    definitions: Iterable[ContractCase] = (),
    gpu_cases: GpuCases | None = None,
    only: str | None = None,
    host: Path | None = None,
    init: str | None = None,
    timeout_s: float = 120.0,
    progress: Callable[[CheckResult], None] | None = None,
) -> LibraryReport:
    """Tests every plugin of a library.

    gpu: None runs kernels where there is a GPU, True needs one, False runs none. definitions: the cases of known
    plugins. gpu_cases: their kernel cases. only: the one plugin to test, by name. init: the function that
    registers the creators; None finds known ones. timeout_s: for one check. progress: called with each result as it comes.

    Raises UsageError where the library or the host cannot be loaded, `only` is none of its plugins,
    or gpu is True without a GPU.
    """
    cases = tuple(definitions)
    with LibraryWorker(Path(path), host, timeout_s, init) as worker:
        described = worker.start()
        device = described["gpu"]
        if gpu and device is None:
            raise UsageError(
                "there is no GPU to run kernels on",
                "this machine",
                "a GPU with its driver, because kernels are to be run",
                "run this on a machine with a GPU, or leave the flag out",
            )
        if gpu is False:
            device = None
        if only is not None:
            creator_index(described, only, Path(path), "correct the name")
        results: list[CheckResult] = []
        for index, name in enumerate(str(creator["name"]) for creator in described["creators"]):
            if only not in (None, name):
                continue
            run = _CreatorRun(worker, index, name, str(path))
            mine = tuple(case for case in cases if case.plugin == name)
            kernels = gpu_cases(name) if gpu_cases and device else ()
            for result in run.results(mine, kernels, with_gpu=device is not None):
                results.append(result)
                if progress:
                    progress(result)
        return LibraryReport(str(path), described["how"], device, tuple(results))


test_library.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


@dataclass
class _CreatorRun:
    """All checks of one creator."""

    worker: LibraryWorker
    index: int
    name: str
    path: str
    timeouts: int = 0

    def results(
        self, cases: tuple[ContractCase, ...], kernels: Iterable[GpuCase], *, with_gpu: bool
    ) -> Iterator[CheckResult]:
        for check in CHECKS:
            for case in (cases or (None,)) if check.scope != "creator" else (None,):
                yield self._one(check.name, case, case.name if case else "")
        ran: set[str] = set()
        for kernel_case in kernels:
            for name in checks_of(kernel_case):
                ran.add(name)
                result = self._one(name, kernel_case, kernel_case.name)
                if result.problem is not None:
                    self.worker.restart()  # a fault of a kernel spoils the CUDA context for what follows
                yield result
        reason = (
            "there is no GPU in use"
            if not with_gpu
            else "no case is of its kind"
            if ran  # every case is for one check at least
            else "no case is known"
        )
        for name in GPU_CHECKS:
            if name not in ran:
                yield CheckResult(self.name, name, "", CheckStatus.NOT_TESTABLE, note=reason)
        yield self._unload()

    def _unload(self) -> CheckResult:
        try:
            self.worker.finish()
        except WorkerDiedError as death:
            return self._died(UNLOAD, "", death)
        return CheckResult(self.name, UNLOAD, "", CheckStatus.PASS)

    def _one(self, check: str, case: object, case_name: str) -> CheckResult:
        if self.timeouts >= PATIENCE:
            note = f"{self.timeouts} checks before this one did not return"
            return CheckResult(self.name, check, case_name, CheckStatus.NOT_TESTABLE, note=note)
        try:
            answer = self.worker.ask(self.index, check, case)
        except WorkerDiedError as death:
            return self._died(check, case_name, death)
        verdict = CheckStatus(answer["verdict"])
        if verdict not in (CheckStatus.FAIL, CheckStatus.ADVICE):
            return CheckResult(self.name, check, case_name, verdict, note=answer["note"])
        problem = Problem(answer["what"], self._where(check, case_name), answer["expected"], answer["fix"])
        return CheckResult(self.name, check, case_name, verdict, problem)

    def _died(self, check: str, case: str, death: WorkerDiedError) -> CheckResult:
        self.timeouts += isinstance(death, WorkerTimeoutError)
        problem = Problem(
            f"the plugin {death}",
            self._where(check, case),
            "a call that returns",
            "run the check in a debugger",
        )
        verdict = CheckStatus.ADVICE if check in ADVICE else CheckStatus.FAIL
        return CheckResult(self.name, check, case, verdict, problem)

    def _where(self, check: str, case: str) -> str:
        return f"plugin {self.name} of {self.path}, check {check!r}" + (f", case {case}" if case else "")
