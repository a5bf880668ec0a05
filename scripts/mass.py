"""Counts statements, and functions that are hard to read, and holds them to the budget.

    python scripts/mass.py            # a row of the budget each
    python scripts/mass.py --check    # exit code 1 if a row is above its limit: `make lint` runs this

Statements are those of the syntax tree without docstrings, so that formatting cannot move them; C++ and CUDA are counted in
lines of code. scripts/budget.json names the folders of each row. A limit is what the row had when it was last written, once
a round of work and not in each commit: a row may have 3 % more. Functions of more than 10 branches have one in percent of
all, with 0.3 of room, and those of more than 8 parameters one without.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET = Path(__file__).with_name("budget.json")

ROOM, ROOM_OF_SHARE = 1.03, 0.3
MANY_BRANCHES, MANY_PARAMETERS = 10, 8

_NATIVE = {".cu", ".cuh", ".cpp", ".hpp", ".h", ".c"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.BoolOp),
    *(ast.comprehension, ast.match_case),
)


@dataclass(frozen=True)
class Mass:
    """The counts of some code. statements: or lines of code, for C++. branching, wide: functions with many branches, with
    many parameters.
    """

    statements: int = 0
    functions: int = 0
    branching: int = 0
    wide: int = 0

    def __add__(self, other: Mass) -> Mass:
        return Mass(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def share(self) -> float:
        """The percentage of functions with many branches."""
        return 100 * self.branching / max(self.functions, 1)


@dataclass(frozen=True)
class BudgetRow:
    """A row of the budget. folders: relative to the checkout. limit, branching, wide: limits on `mass`; branching in
    percent.
    """

    folders: tuple[str, ...]
    mass: Mass
    limit: int
    branching: float
    wide: int

    @property
    def above(self) -> bool:
        mass = self.mass
        return (
            mass.statements > self.limit * ROOM
            or mass.share > self.branching + ROOM_OF_SHARE
            or mass.wide > self.wide
        )

    def __str__(self) -> str:
        mass = self.mass
        return (
            f"{mass.statements:7,} statements (limit {self.limit:,} and 3 %), {mass.share:4.1f} % of functions with more "
            f"than {MANY_BRANCHES} branches (limit {self.branching:g} %), {mass.wide:3} with more than {MANY_PARAMETERS} "
            f"parameters (limit {self.wide}): {' '.join(self.folders)}"
        )


def budget_rows() -> list[BudgetRow]:
    """The rows of scripts/budget.json, with counts of the files that git tracks or would add."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    counted = {name: mass_of(ROOT / name) for name in names if (ROOT / name).is_file()}
    rows = []
    for row in json.loads(BUDGET.read_text()):
        starts = tuple(f"{folder}/" for folder in row["folders"])
        mass = sum((one for name, one in counted.items() if name.startswith(starts)), Mass())
        rows.append(BudgetRow(tuple(row["folders"]), mass, row["limit"], row["branching"], row["wide"]))
    return rows


def mass_of(path: Path) -> Mass:
    """The counts of a Python, C++ or CUDA file; zero for other files."""
    if path.suffix == ".py":
        return _python_mass(ast.parse(path.read_text(encoding="utf-8")))
    if path.suffix not in _NATIVE:
        return Mass()
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return Mass(sum(1 for line in lines if line and not line.startswith(("//", "*", "/*"))))


def _python_mass(tree: ast.Module) -> Mass:
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    texts = sum(
        map(_is_text, (held for node in nodes if isinstance(node, _DOCUMENTED) for held in node.body))
    )
    branching = sum(
        sum(isinstance(node, _BRANCHES) for node in ast.walk(one)) > MANY_BRANCHES for one in functions
    )
    wide = sum(
        len([*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs]) > MANY_PARAMETERS
        for one in functions
    )
    return Mass(sum(isinstance(node, ast.stmt) for node in nodes) - texts, len(functions), branching, wide)


def _is_text(node: ast.stmt) -> bool:
    """Whether the statement is a docstring, or a text below a constant that explains it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def main(arguments: Sequence[str]) -> int:
    rows = budget_rows()
    above = [row for row in rows if row.above]
    for row in above if arguments == ["--check"] else rows:
        print(row)
    if above and arguments == ["--check"]:
        print(f"above the limit: take code away, or raise it in {BUDGET.relative_to(ROOT)} and say why")
    return bool(above)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
