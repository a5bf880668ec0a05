"""The GPU rule of conftest.py and its record of durations, tried on a suite of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest

@pytest.mark.gpu
def test_on_gpu(): pass

@pytest.mark.gpu
def test_that_skips_itself(): pytest.skip("wrong GPU")

def test_elsewhere(): pass

def test_skipped_elsewhere(): pytest.skip("no reason")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nmarkers = gpu: needs a GPU\n")
    pytester.makepyfile(SUITE)
    return pytester


def conftest(gpus: int) -> str:
    text = (Path(__file__).parent / "conftest.py").read_text()
    return text + f"\n\ngpu_count = lambda: {gpus}\n"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_without_a_gpu_marked_tests_are_skipped_and_counted(
    suite: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    suite.makeconftest(conftest(0))
    result = suite.runpytest_inprocess(*workers)
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(["GPU: 2 tests were skipped*--require-gpu*"])


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_require_gpu_fails_marked_tests_without_a_gpu(
    suite: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    suite.makeconftest(conftest(0))
    result = suite.runpytest_inprocess("--require-gpu", *workers)
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] == 1
    assert outcomes["skipped"] == 1
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) == 2
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*no NVIDIA GPU here*"])


def test_with_a_gpu_only_a_test_that_skips_itself_is_counted(suite: pytest.Pytester) -> None:
    suite.makeconftest(conftest(1))
    result = suite.runpytest_inprocess()
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["GPU: 1 tests were skipped*"])


def test_require_gpu_fails_a_marked_test_that_skips_itself(suite: pytest.Pytester) -> None:
    suite.makeconftest(conftest(1))
    result = suite.runpytest_inprocess("--require-gpu")
    result.assert_outcomes(passed=2, skipped=1, failed=1)
    result.stdout.fnmatch_lines(["*wrong GPU*"])


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "two workers"])
def test_durations_are_recorded(suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    suite.makeconftest(conftest(0))
    suite.makepyfile(**{"inner/test_slow": "import time\ndef test_slow(): time.sleep(0.2)"})
    suite.runpytest_inprocess("--record-durations", "times.json", *workers)
    record = json.loads((suite.path / "times.json").read_text())
    assert record["tests"] == 5 and record["outcomes"] == {"passed": 2, "skipped": 3}
    assert next(iter(record["slowest"])) == "inner/test_slow.py::test_slow"
    assert record["wall_s"] >= record["folders"]["inner"] >= 0.2
    assert record["workers"] == (2 if workers else 1) and record["machine"]["cores"]


def test_no_test_uses_the_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert Path(os.environ["TRTSMITH_CACHE"]).is_relative_to(tmp_path_factory.getbasetemp())
