"""The GPU check's step for plugin libraries, and how it counts results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gpucheck import plugins
from gpucheck.record import Notes, read_notes
from trtsmith.converter.plugin.cases import gpu_cases
from trtsmith.converter.plugin.checks.checks_gpu import DIRECT, RESTORED
from trtsmith.converter.plugin.contract import CheckResult, CheckStatus, GpuCase, LibraryReport

NAME = "MatrixInverse"


def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Callable[[int, str], CheckStatus]) -> Any:
    """verdict: of a case, by its number among those of the plugin, and a check."""

    def tested(
        library: Path, *, gpu_cases: Callable[[str], Iterable[GpuCase]], progress: Any, **_: Any
    ) -> LibraryReport:
        results = []
        for number, case in enumerate(gpu_cases(NAME)):
            for check in (DIRECT, RESTORED):
                results.append(CheckResult(NAME, check, case.name, verdict(number, check)))
                progress(results[-1])
        return LibraryReport(str(library), "getCreators", "a GPU", tuple(results))

    monkeypatch.setattr(plugins, "test_library", tested)
    monkeypatch.setattr(plugins, "creators_of", lambda library: [NAME])
    monkeypatch.setattr(plugins, "gpu_cases", lambda name, **_: gpu_cases(name, large=False))
    plugins.check(Path("libany.so"), tmp_path, Notes(tmp_path / "notes.jsonl"), [NAME])
    return read_notes(tmp_path / "notes.jsonl", "plugins", None)


@pytest.mark.parametrize(
    ("check", "verdict"),
    [(DIRECT, CheckStatus.FAIL), (RESTORED, CheckStatus.FAIL), (DIRECT, CheckStatus.NOT_TESTABLE)],
)
def test_a_case_is_right_if_its_kernel_ran_and_no_check_failed(
    check: str, verdict: CheckStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_is_wrong(number: int, asked: str) -> CheckStatus:
        return verdict if (number, asked) == (0, check) else CheckStatus.PASS

    found = step(tmp_path, monkeypatch, first_is_wrong)
    rows = [row for row in found.rows if "route" in row]
    cases = list(gpu_cases(NAME, large=False))
    assert {row["route"] for row in rows} == {"kernel, libany"} and {row["op"] for row in rows} == {NAME}
    assert sum(row["cases"] for row in rows) == len(cases)
    assert sum(row["passed"] for row in rows) == len(cases) - 1
    (short,) = [row for row in rows if row["passed"] < row["cases"]]
    assert (short["types"], short["kind"]) == (cases[0].name.partition(", ")[2], cases[0].kind)
