#!/usr/bin/env python3
"""Measures what the tests catch: plants mutants into the product and runs the tests that execute them.

    python3 scripts/setup_env.py -- python scripts/mutants.py WORK_FOLDER --commit SHA --out mutants.json

From each room of the product the same number of expressions is drawn with a fixed seed. One run of the whole suite, in a
checkout where each of them reports the test that evaluates it, says which tests to run. Then each is changed (a comparison
turned round, a number one greater, a call left out, ...) in a checkout of its own, and those tests run until one fails, for
at most a minute. A test that fails without the change, too, does not count. The record is the share of mutants caught, and
each that was not, with its change.
"""

from __future__ import annotations

import ast
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.processes import run_boxed  # noqa: E402
from harness.run_record import script_parser  # noqa: E402

SECONDS = 60
NO_RESULT = "pytest ended without a result"
HITS = '''"""Reports, once for each test, that an expression was evaluated."""
import os
SEEN = set()
def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test and (number, test) not in SEEN:
        SEEN.add((number, test))
        with open(os.path.join(os.path.dirname(__file__), "hits", str(number)), "a") as file:
            file.write(test + "\\n")
'''
PAIRS: list[tuple[type[Any], type[Any]]] = [
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot), (ast.And, ast.Or),
    (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv),
]  # fmt: skip
OPPOSITE = {one: other for a, b in PAIRS for one, other in ((a, b), (b, a))} | {ast.Div: ast.Mult}


def changed(node: ast.AST) -> ast.expr | None:
    """The expression to put in place of ``node``; None if it is not one to change."""
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in OPPOSITE:
            return ast.Compare(left, [OPPOSITE[type(operator)]()], [right])
        case ast.BoolOp(operator, values):
            return ast.BoolOp(OPPOSITE[type(operator)](), values)
        case ast.BinOp(left, operator, right) if type(operator) in OPPOSITE:
            return ast.BinOp(left, OPPOSITE[type(operator)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.IfExp(test, body, otherwise):
            return ast.IfExp(test, otherwise, body)
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return ast.Constant(value + 1)
    return None


def sites_of(path: pathlib.Path) -> list[tuple[int, int, str]]:
    """Expressions of a module's functions that can be changed: first and last byte, and what to write instead."""
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        skipped = {
            id(part)
            for outer in ast.walk(function)
            if isinstance(outer, ast.JoinedStr | ast.MatchValue)
            for part in ast.walk(outer)
        }
        for node in (part for statement in function.body for part in ast.walk(statement)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                node, new = node.value, ast.Constant(None)  # a call that is left out
            elif id(node) in skipped or (new := changed(node)) is None:  # type: ignore[assignment]
                continue
            assert isinstance(node, ast.expr) and node.end_lineno and node.end_col_offset
            first, last = (
                starts[node.lineno - 1] + node.col_offset,
                starts[node.end_lineno - 1] + node.end_col_offset,
            )
            found.append((first, last, ast.unparse(new)))
    return sorted(set(found))


def draw(tree: pathlib.Path, rooms: list[str], each: int, seed: int) -> list[dict[str, Any]]:
    """``each`` expressions of every room, no two of which lie within each other."""
    drawn = []
    for room in rooms:
        sites = [
            (str(path.relative_to(tree)), *site)
            for path in sorted((tree / room).rglob("*.py"))
            for site in sites_of(path)
        ]
        random.Random(f"{seed} {room}").shuffle(sites)
        kept: list[tuple[str, int, int, str]] = []
        for site in sites:
            if len(kept) < each and all(
                site[0] != other[0] or site[2] <= other[1] or other[2] <= site[1] for other in kept
            ):
                kept.append(site)
        drawn += [
            {"room": room, "file": file, "first": first, "last": last, "new": new}
            for file, first, last, new in kept
        ]
    return drawn


def write(tree: pathlib.Path, site: dict[str, Any], before: str) -> bytes:
    """Put ``before`` in front of the site's text, or without one the change in its place; returns what the file held."""
    path: pathlib.Path = tree / site["file"]
    old = path.read_bytes()
    inner = old[site["first"] : site["last"]].decode() if before else site["new"]
    path.write_bytes(old[: site["first"]] + f"({before}({inner}))".encode() + old[site["last"] :])
    return old


def checkout(work: pathlib.Path, name: str, commit: str) -> pathlib.Path:
    """A checkout of ``commit`` with this checkout's compiled libraries."""
    tree = work / name
    shutil.rmtree(tree, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(tree)], check=True)
    subprocess.run(["git", "-C", str(tree), "checkout", "--quiet", commit], check=True)
    shutil.copytree(ROOT / "converter/lib", tree / "converter/lib", dirs_exist_ok=True)
    return tree


def pytest(tree: pathlib.Path, arguments: list[str], seconds: float | None = None) -> tuple[int, str]:
    """Run pytest on ``tree``'s own code; the exit status is -1 when time ran out."""
    paths = os.pathsep.join([str(tree.parent / "first"), str(tree), str(tree / "scripts")])
    command = [
        "env",
        f"PYTHONPATH={paths}",
        "PYTHONDONTWRITEBYTECODE=1",
        sys.executable,
        "-m",
        "pytest",
        "-q",
    ]
    ended = run_boxed([*command, "--tb=no", "-p", "no:cacheprovider", *arguments], seconds, tree)
    return -1 if ended.code is None else ended.code, ended.output


def fate(
    tree: pathlib.Path, clean: pathlib.Path, site: dict[str, Any], tests: list[str], wrong: set[str]
) -> str:
    """The test that catches a mutant, or why none does."""
    until = time.monotonic() + SECONDS
    old = write(tree, site, "")
    try:
        while tests := [test for test in tests if test not in wrong]:
            names = tree.parent / f"{tree.name}.txt"
            names.write_text("\n".join(tests), encoding="utf-8")
            status, said = pytest(tree, ["-x", f"@{names}"], max(1, until - time.monotonic()))
            if status == -1:
                return "out of time"
            failed = [
                line.split(" ", 1)[1].split(" - ")[0]
                for line in said.splitlines()
                if line.startswith(("FAILED ", "ERROR "))
            ]
            if status == 0:
                return "survived"
            lost = [line for line in said.splitlines() if line.startswith("ERROR: not found: ")]
            if lost:  # names with a line's end in them are not found again
                wrong.update(test for test in tests if any(line.endswith(test) for line in lost))
            elif not failed:
                return NO_RESULT
            elif pytest(clean, failed[:1])[0] == 0:
                return failed[0]
            wrong.update(failed)
    finally:
        (tree / site["file"]).write_bytes(old)
    return "no test executes it"


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--commit", required=True, help="a commit that stays where it is, and no branch")
    parser.add_argument("--each", type=int, default=6, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    asked = parser.parse_args()
    work = asked.work.resolve()
    (work / "first" / "hits").mkdir(parents=True, exist_ok=True)
    (work / "first" / "_editable_skbc_trtsmith.py").write_text(
        "# An editable installation is not to come before the checkout.\n"
    )
    (work / "first" / "mutant_hits.py").write_text(HITS)
    marked = checkout(work, "marked", asked.commit)
    rooms = [
        *sorted(str(path.parent.relative_to(marked)) for path in marked.glob("converter/*/__init__.py")),
        "importers",
        "trtsmith",
    ]
    sites = draw(marked, rooms, asked.each, asked.seed)
    hits = work / "first" / "hits"
    if not (work / "suite.txt").exists():
        for number, site in sorted(enumerate(sites), key=lambda pair: -pair[1]["first"]):
            write(marked, site, f"__import__('mutant_hits').hit({number}) or ")
        (work / "suite.txt").write_text(pytest(marked, ["-n", str(asked.jobs)])[1])
    executed = {}
    for number in range(len(sites)):  # without the tests of suites that tests write
        found = (hits / str(number)).read_text().splitlines() if (hits / str(number)).exists() else []
        executed[number] = {test for test in found if (marked / test.partition("::")[0]).exists()}
    often = collections.Counter(
        test for tests in executed.values() for test in tests
    )  # the most specific tests run first
    clean, wrong = checkout(work, "clean", asked.commit), set[str]()
    trees = [checkout(work, f"mutant{job}", asked.commit) for job in range(asked.jobs)]

    def of_job(job: int) -> None:
        for number in range(job, len(sites), asked.jobs):
            tests = sorted(executed[number], key=lambda test: (often[test], test))
            sites[number]["tests"] = len(tests)
            sites[number]["fate"] = fate(trees[job], clean, sites[number], tests, wrong)
            print(number, sites[number], flush=True)

    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(of_job, range(asked.jobs)))
    missed = ("survived", "out of time", "no test executes it", NO_RESULT)
    commit = subprocess.run(
        ["git", "rev-parse", asked.commit], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    record = {
        "commit": commit,
        "seed": asked.seed,
        "mutants": len(sites),
        "caught": sum(site["fate"] not in missed for site in sites),
    }
    counts = collections.Counter(site["fate"] for site in sites if site["fate"] in missed)
    asked.out.write_text(
        json.dumps({**record, "missed": counts, "sites": sites}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
