"""The rules of conftest.py for GPUs and programs, tested on small suites."""

from __future__ import annotations

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
    pytester.makeini("[pytest]\nmarkers =\n gpu: needs a GPU\n program(*names): needs one of these\n")
    pytester.makepyfile(SUITE)
    return pytester


def conftest(gpus: int) -> str:
    text = (Path(__file__).parent / "conftest.py").read_text()
    return text + f"\n\ngpu_count = lambda: {gpus}\n"


@pytest.mark.parametrize(
    ("gpus", "flags", "outcomes", "line"),
    [
        (0, (), {"passed": 1, "skipped": 3}, "GPU: 2 tests were skipped*--require-gpu*"),
        (0, ("-n", "2"), {"passed": 1, "skipped": 3}, "GPU: 2 tests were skipped*--require-gpu*"),
        (0, ("--require-gpu",), {"passed": 1, "skipped": 1, "errors": 2}, "*no NVIDIA GPU here*"),
        (1, (), {"passed": 2, "skipped": 2}, "GPU: 1 tests were skipped*"),
        (1, ("--require-gpu",), {"passed": 2, "skipped": 1, "failed": 1}, "*wrong GPU*"),
    ],
)
def test_marked_tests_are_skipped_and_counted_or_required(
    gpus: int, flags: tuple[str, ...], outcomes: dict[str, int], line: str, suite: pytest.Pytester
) -> None:
    suite.makeconftest(conftest(gpus))
    result = suite.runpytest_inprocess(*flags)
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines([line])


@pytest.mark.parametrize(("required", "outcome"), [("", "skipped"), ("1", "errors")])
def test_without_its_program_a_test_is_skipped_or_fails(
    required: str, outcome: str, suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTSMITH_REQUIRE_PROGRAMS", required)
    suite.makeconftest(conftest(0))
    suite.makepyfile(
        "import pytest\n"
        "@pytest.mark.program('no-such-browser', 'sh')\n"
        "def test_with_the_second(): pass\n"
        "@pytest.mark.program('no-such-browser')\n"
        "def test_without(): pass\n"
    )
    result = suite.runpytest_inprocess("-rsE")
    result.assert_outcomes(passed=1, **{outcome: 1})
    result.stdout.fnmatch_lines(["*no-such-browser is not installed here*make programs*"])


def test_no_test_uses_the_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert Path(os.environ["TRTSMITH_CACHE"]).is_relative_to(tmp_path_factory.getbasetemp())
