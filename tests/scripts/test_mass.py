"""What counts as code, and that no part of the checkout exceeds its budget."""

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


def f(  # two
    a: int,
) -> str:
    """Says it."""
    if a: return ""  # three and four, in one line
    return """two
    lines"""  # five
'''
NATIVE = """// a comment
/* another
 * of two lines */

int x = 1;  // one
"""


@pytest.mark.parametrize(
    ("name", "text", "statements"), [("a.py", PYTHON, 5), ("a.cu", NATIVE, 1), ("a.md", "text", 0)]
)
def test_statements(name: str, text: str, statements: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert mass.mass_of(tmp_path / name).statements == statements


def test_functions_that_are_hard_to_read(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    names = ", ".join("abcdefghi")
    path.write_text(f"def f({names}):\n" + "    if a: b()\n" * 11 + "def g(a):\n" + "    if a: b()\n" * 10)
    assert mass.mass_of(path) == mass.Mass(statements=44, functions=2, branching=1, wide=1)


@pytest.mark.parametrize(
    ("found", "above"),
    [
        (mass.Mass(103, 100, 5, 2), False),
        (mass.Mass(104, 100, 5, 2), True),
        (mass.Mass(100, 100, 6, 2), True),
        (mass.Mass(100, 100, 5, 3), True),
    ],
)
def test_a_row_above_a_limit_fails(
    found: mass.Mass, above: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = mass.BudgetRow(("a",), found, limit=100, branching=5.0, wide=2)
    monkeypatch.setattr(mass, "budget_rows", lambda: [row])
    assert mass.main(["--check"]) == int(above)
    assert ("above the limit" in capsys.readouterr().out) is above


def test_every_row_of_the_budget_names_folders_of_the_checkout() -> None:
    rows = json.loads(mass.BUDGET.read_text())
    assert all((mass.ROOT / folder).is_dir() for row in rows for folder in row["folders"])
