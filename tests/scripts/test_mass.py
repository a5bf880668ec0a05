"""What counts as code, and that no part of the checkout is above its budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mass

PYTHON = '''"""A docstring
of two lines."""

# a comment
X = 1  # one
"""What X is."""


def f(
    a: int,
) -> str:  # three
    """Says it."""
    return """two
    lines"""
'''
NATIVE = """// a comment
/* another
 * of two lines */

int x = 1;  // one
"""


@pytest.mark.parametrize(
    ("name", "text", "lines"), [("a.py", PYTHON, 6), ("a.cu", NATIVE, 1), ("a.md", "text", 0)]
)
def test_lines_of_code(name: str, text: str, lines: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert mass.code_lines(tmp_path / name) == lines


def test_a_row_above_its_limit_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [mass.BudgetRow(("a",), 10, 10, 5), mass.BudgetRow(("b",), 11, 10, 5)]
    monkeypatch.setattr(mass, "budget_rows", lambda: rows)
    assert mass.main(["--check"]) == 1 and capsys.readouterr().out.startswith("     11 lines")
    monkeypatch.setattr(mass, "budget_rows", lambda: rows[:1])
    assert mass.main(["--check"]) == 0 and not capsys.readouterr().out


def test_every_row_of_the_budget_names_folders_of_the_checkout() -> None:
    rows = json.loads(mass.BUDGET.read_text())
    assert all((mass.ROOT / folder).is_dir() for row in rows for folder in row["folders"])
