"""Which rows `make test` leaves out, and how it finds them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import selection
from tests.selection import Traits, left_out

pytest_plugins = ["pytester"]

IDS = [
    "a.py::test_x[1]",
    "a.py::test_x[2]",
    "a.py::test_x[3]",
    "a.py::test_y",
    "a.py::test_z[1]",
    "a.py::test_z[2]",
]


def alike(ids: Iterable[str]) -> dict[str, Traits]:
    """Rows that share nothing."""
    return dict.fromkeys(ids, frozenset())


def test_a_slow_row_is_left_out_where_a_faster_one_of_its_test_runs() -> None:
    seconds = {"a.py::test_x[2]": 9.0, "a.py::test_x[3]": 5.0, "a.py::test_y": 60.0}
    assert left_out(alike(IDS), seconds) == {"a.py::test_x[2]", "a.py::test_x[3]"}
    assert left_out(alike(IDS), {"a.py::test_z[1]": 3.0, "a.py::test_z[2]": 4.0}) == {"a.py::test_z[2]"}


def test_each_row_left_out_is_drawn_by_some_seed_and_the_same_ones_by_the_same_seed() -> None:
    ids = [f"a.py::test_x[{i}]" for i in range(41)]
    seconds = dict.fromkeys(ids[1:], 3.0)
    draws = [left_out(alike(ids), seconds, f"10:{seed}") for seed in range(100)]
    assert draws == [left_out(alike(ids), seconds, f"10:{seed}") for seed in range(100)]
    assert frozenset.intersection(*draws) == frozenset() and 3400 < sum(map(len, draws)) < 3800


CASES: dict[str, Traits] = {
    f"a.py::test_x[{operator}-{case}]": frozenset({("op", operator)})
    for operator, cases in {"Often": 200, "Seldom": 2, "Once": 1}.items()
    for case in range(cases)
}


def test_a_share_of_a_slow_table_runs_with_each_operator() -> None:
    kept = CASES.keys() - left_out(CASES, {"a.py::test_x": 60.0})
    operators = [one.partition("[")[2].partition("-")[0] for one in kept]
    assert {*operators} == {"Often", "Seldom", "Once"}
    assert 35 < len(kept) < 65
    assert left_out(CASES, {"a.py::test_x": 3.0}) == set(), "of a fast one all run"


def test_rows_that_name_nothing_all_run() -> None:
    ids = [f"a.py::test_x[{number}]" for number in range(100)]
    assert left_out(alike(ids), {"a.py::test_x": 60.0}) == set()


def test_rows_left_out_of_a_slow_table_are_drawn() -> None:
    seconds = {"a.py::test_x": 60.0}
    draws = [left_out(CASES, seconds, f"10:{seed}") for seed in range(100)]
    assert frozenset.intersection(*draws) == frozenset()


SUITE = """
import time, pytest

@pytest.mark.parametrize("seconds", [0, 0.3])
def test_rows(seconds): time.sleep(seconds)

def test_alone(): time.sleep(0.3)
"""


def test_what_is_recorded_is_left_out(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(selection, "SECONDS", tmp_path / "slow.json")
    monkeypatch.setattr(selection, "SLOW_S", 0.2)
    pytester.makepyfile(SUITE)
    pytester.runpytest_inprocess("-p", "tests.selection", "--record").assert_outcomes(passed=3)
    (rows, alone) = sorted(json.loads((tmp_path / "slow.json").read_text()), key=len, reverse=True)
    assert rows.endswith("test_rows[0.3]") and alone.endswith("test_alone")
    pytester.runpytest_inprocess("-p", "tests.selection", "--quick").assert_outcomes(passed=2, deselected=1)


TABLE = """
import dataclasses, pytest, time

@pytest.fixture(autouse=True)
def slow(): time.sleep(0.006)  # of 30 rows more than 0.1 s, the least that is noted

@dataclasses.dataclass
class Op: name: str

@dataclasses.dataclass
class Example: op: str

@pytest.mark.parametrize("case", range(40))
@pytest.mark.parametrize("op", [Op("A"), Op("B")], ids=str)
def test_cases(op, case): pass

@pytest.mark.parametrize("op", [Op(f"O{i}") for i in range(50)])
def test_each(op): pass

@pytest.mark.parametrize("example", [Example(f"O{i // 2}") for i in range(100)])
def test_examples(example): pass

@pytest.mark.parametrize("seed", range(30))
def test_seeds(seed): pass
"""


def test_a_slow_table_is_known_by_its_sum_and_its_operators_by_their_names(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(selection, "SECONDS", tmp_path / "slow.json")
    monkeypatch.setattr(selection, "TABLE_S", 0.1)
    path = pytester.makepyfile(TABLE)
    pytester.runpytest_inprocess("-p", "tests.selection", "--record").assert_outcomes(passed=260)
    tests = ("cases", "each", "examples", "seeds")
    assert {*json.loads((tmp_path / "slow.json").read_text())} == {f"{path.name}::test_{t}" for t in tests}
    ran = pytester.runpytest_inprocess("-p", "tests.selection", "--quick", "-v").stdout.str()
    rows = re.findall(r"::test_(\w+)\[(.+)\] PASSED", ran)
    counts = Counter(test for test, _ in rows)
    assert counts["each"] == 50 and counts["seeds"] == 30 and 8 <= counts["cases"] <= 35
    assert {int(row.removeprefix("example")) // 2 for test, row in rows if test == "examples"} == {*range(50)}
    assert counts["examples"] < 75
