"""The matrix of evidence: cases by class, faults in bold, reasons where there is nothing."""

from __future__ import annotations

from docpages.operator_matrix import COLUMNS, KINDS, render
from trtsmith.importers.registry import by_name


def line(name: str, types: str, *rows: dict[str, object]) -> list[str]:
    text = render([by_name()[name]], [{"op": name, "types": types, **row} for row in rows])
    (found,) = [row for row in text.splitlines() if f"| {types} |" in row]
    return [cell.strip() for cell in found.strip("|").split("|")][2:]


def row(route: str, kind: str, cases: int, passed: int) -> dict[str, object]:
    return {"route": route, "kind": kind, "cases": cases, "passed": passed}


def test_cases_are_counted_by_class_and_faults_are_bold() -> None:
    routes = list(COLUMNS)
    ordinary, empty, nan = KINDS
    cells = line(
        *("MatrixInverse", "float32"),
        *(row(routes[0], nan, 2, 2), row(routes[0], ordinary, 9, 9), row(routes[1], empty, 2, 1)),
    )
    assert cells[:3] == ["9 + 2", "**1 of 2**", "not run"]


def test_what_cannot_be_tried_has_its_footnote() -> None:
    cells = dict(zip(COLUMNS.values(), line("NonZeroPositions", "bfloat16 int64 int32"), strict=True))
    assert cells["expansion"] == "c" and cells["contract V2"] == cells["kernel V2"] == "a"
    assert cells["CUDA graph"] == "b" and cells["embedded"] == "not run"
