"""Counts lines of code, without blank lines, comments and docstrings, and holds them to the budget.

    python scripts/mass.py            # a row of the budget each: lines, limit, goal
    python scripts/mass.py --check    # exit code 1 if a row is above its limit: `make lint` runs this

scripts/budget.json names the folders of each row. A limit is what the row may have now: a change that needs more raises it
there and says why in its commit; one that takes code away lowers it. A goal is what the row shall come to.
"""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGET = Path(__file__).with_name("budget.json")

_NATIVE = {".cu", ".cuh", ".cpp", ".hpp", ".h", ".c"}
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class BudgetRow:
    """folders: relative to the checkout. lines: that they have. limit, goal: see above."""

    folders: tuple[str, ...]
    lines: int
    limit: int
    goal: int


def budget_rows() -> list[BudgetRow]:
    """The rows of scripts/budget.json, counted over the files that git tracks or would add."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    count = {name: code_lines(ROOT / name) for name in names if (ROOT / name).is_file()}
    rows = []
    for row in json.loads(BUDGET.read_text()):
        starts = tuple(f"{folder}/" for folder in row["folders"])
        lines = sum(count[name] for name in count if name.startswith(starts))
        rows.append(BudgetRow(tuple(row["folders"]), lines, row["limit"], row["goal"]))
    return rows


def code_lines(path: Path) -> int:
    """Lines of a Python, C++ or CUDA file that hold code; 0 for other files."""
    if path.suffix == ".py":
        return _python_lines(path.read_text(encoding="utf-8"))
    if path.suffix not in _NATIVE:
        return 0
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return sum(1 for line in lines if line and not line.startswith(("//", "*", "/*")))


def _python_lines(text: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED):
            for first in node.body:  # texts that stand alone explain the constant above them
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                    lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def main(arguments: Sequence[str]) -> int:
    rows = budget_rows()
    above = [row for row in rows if row.lines > row.limit]
    for row in above if arguments == ["--check"] else rows:
        print(f"{row.lines:7,} lines, limit {row.limit:7,}, goal {row.goal:7,}: {' '.join(row.folders)}")
    if above and arguments == ["--check"]:
        print(f"above the limit: take code away, or raise it in {BUDGET.relative_to(ROOT)} and say why")
    return bool(above)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
