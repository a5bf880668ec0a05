"""Which slow rows `make test` leaves out, and how it finds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import selection
from tests.selection import left_out

pytest_plugins = ["pytester"]

IDS = [
    "a.py::test_x[1]",
    "a.py::test_x[2]",
    "a.py::test_x[3]",
    "a.py::test_y",
    "a.py::test_z[1]",
    "a.py::test_z[2]",
]


def test_a_slow_row_is_left_out_where_a_faster_one_of_its_test_runs() -> None:
    seconds = {"a.py::test_x[2]": 9.0, "a.py::test_x[3]": 5.0, "a.py::test_y": 60.0}
    assert left_out(IDS, seconds) == {"a.py::test_x[2]", "a.py::test_x[3]"}
    assert left_out(IDS, {"a.py::test_z[1]": 3.0, "a.py::test_z[2]": 4.0}) == {"a.py::test_z[2]"}


def test_each_row_left_out_is_drawn_by_some_seed_and_the_same_ones_by_the_same_seed() -> None:
    ids = [f"a.py::test_x[{i}]" for i in range(41)]
    seconds = dict.fromkeys(ids[1:], 3.0)
    draws = [left_out(ids, seconds, f"10:{seed}") for seed in range(100)]
    assert draws == [left_out(ids, seconds, f"10:{seed}") for seed in range(100)]
    assert frozenset.intersection(*draws) == frozenset() and 3400 < sum(map(len, draws)) < 3800


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
