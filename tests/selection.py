"""A pytest plugin that selects tests by their duration.

`make test` gives --quick, which leaves to `make test-all`:
- of a test with several rows, rows of more than SLOW_S seconds where a faster row of the same test runs;
- of a test whose rows take more than TABLE_S seconds together, all but one row in SHARE, by the id's hash, and one row of
  each operator, alias, rule, element type and opset. Rows that name none of these all run.
`.ci/run` draws a tenth of these by the commit's hash, so that every one runs within some commits. --record notes how long
tests take, in the file that --quick reads.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("slow_tests.json")
"""Of `make test-all ARGS=--record` on two cores: seconds of each slow row by its id, of all rows by the test's."""

SLOW_S = 2.0
TABLE_S = 40.0
"""With 20, `make test` missed 2 of 45 one-line faults that all rows find: each example of a rule is a claim of its own."""

SHARE = 4

SUBJECTS = frozenset({"op", "op_type", "rule", "dtype", "opset"})
"""Parameters of rows, or attributes of parameters, that say what is tested, of which the rest of a row is a case."""

Traits = frozenset[tuple[str, str]]
"""The subjects of a row, each with its name; none if nothing says what the row is a case of."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out slow rows where a faster row of the same test runs, and most rows of slow tables",
    )
    parser.addoption(
        "--draw",
        default="",
        metavar="N:SEED",
        help="with --quick: of the rows left out, one in N all the same, drawn by SEED",
    )
    parser.addoption(
        "--record", action="store_true", help=f"write the seconds of slow tests to {SECONDS.name}"
    )


def left_out(rows: Mapping[str, Traits], seconds: Mapping[str, float], draw: str = "") -> frozenset[str]:
    """The tests that --quick leaves out.

    rows: by id. seconds: of slow rows, and of whole tests. draw: N:SEED, or "" to draw none.
    """
    tests: defaultdict[str, dict[str, Traits]] = defaultdict(dict)
    for one, traits in rows.items():
        tests[_test_of(one)][one] = traits
    out = set()
    for test, same in tests.items():
        fastest = min(same, key=lambda one: seconds.get(one, 0.0))
        quick = {one: traits for one, traits in same.items() if one not in seconds or one == fastest}
        kept = _sample(quick) if seconds.get(test, 0.0) > TABLE_S else quick.keys()
        out |= same.keys() - kept
    share, _, seed = draw.partition(":")
    drawn = {one for one in out if share and zlib.crc32(f"{seed} {one}".encode()) % int(share) == 0}
    return frozenset(out - drawn)


def _sample(rows: Mapping[str, Traits]) -> set[str]:
    """One row in SHARE by its id, and more until every trait is in one; a row without traits is kept."""
    kept: set[str] = set()
    seen: set[tuple[str, str]] = set()
    hashes = {one: zlib.crc32(one.encode()) for one in rows}
    for one in sorted(rows, key=lambda one: (hashes[one] % SHARE, hashes[one])):
        if hashes[one] % SHARE == 0 or rows[one] - seen or not rows[one]:
            kept.add(one)
            seen |= rows[one]
    return kept


def traits_of(item: pytest.Item) -> Traits:
    """What the row says of SUBJECTS, by parameters and by their attributes."""
    found = set()
    callspec = getattr(item, "callspec", None)
    for parameter, value in callspec.params.items() if callspec else ():
        for name, subject in ((parameter, value), *getattr(value, "__dict__", {}).items()):
            if name in SUBJECTS:
                found.add((name, str(getattr(subject, "name", subject))))
    return frozenset(found)


def _test_of(row: str) -> str:
    return row.partition("[")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    seconds = json.loads(SECONDS.read_text())
    rows = {
        item.nodeid: traits_of(item) if _test_of(item.nodeid) in seconds else frozenset() for item in items
    }
    out = left_out(rows, seconds, config.getoption("--draw"))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
    items[:] = [item for item in items if item.nodeid not in out]


class Recorder:
    """Adds up each test's seconds, of set-up and clean-up too, and writes those of slow rows and of slow tests."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        slow = {name: took for name, took in self.seconds.items() if took > SLOW_S}
        tests: defaultdict[str, float] = defaultdict(float)
        for name, took in self.seconds.items():
            tests[_test_of(name)] += took
        slow |= {name: took for name, took in tests.items() if took > TABLE_S}
        rounded = {name: round(took, 1) for name, took in sorted(slow.items())}
        SECONDS.write_text(json.dumps(rounded, indent=0) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record") and not hasattr(
        config, "workerinput"
    ):  # xdist's workers report to this process
        config.pluginmanager.register(Recorder())
