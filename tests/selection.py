"""A pytest plugin that selects tests by their duration.

`make test` gives --quick: of a test with several rows, rows of more than SLOW_S seconds are left to `make test-all` where a
faster row of the same test runs. `.ci/run` draws a share of these by the commit's hash, so that every one runs within some
commits. --record notes how long tests take, in the file that --quick reads.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("slow_tests.json")
"""Of `make test-all ARGS=--record` on two cores: seconds of each test that is slow, by its id."""

SLOW_S = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="leave out slow rows where a faster row of the same test runs"
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


def left_out(ids: Iterable[str], seconds: Mapping[str, float], draw: str = "") -> frozenset[str]:
    """The tests that --quick leaves out. seconds: of slow tests. draw: N:SEED, or "" to draw none."""
    rows = defaultdict(list)
    for one in ids:
        rows[one.partition("[")[0]].append(one)
    slow = set()
    for same in rows.values():
        fastest = min(same, key=lambda one: seconds.get(one, 0.0))
        slow |= {one for one in same if one in seconds and one != fastest}
    share, _, seed = draw.partition(":")
    drawn = {one for one in slow if share and zlib.crc32(f"{seed} {one}".encode()) % int(share) == 0}
    return frozenset(slow - drawn)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
    seconds = json.loads(SECONDS.read_text())
    out = left_out((item.nodeid for item in items), seconds, config.getoption("--draw"))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
    items[:] = [item for item in items if item.nodeid not in out]


class Recorder:
    """Adds up each test's seconds, of set-up and clean-up too, and writes those of slow ones."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        slow = {name: round(took, 1) for name, took in sorted(self.seconds.items()) if took > SLOW_S}
        SECONDS.write_text(json.dumps(slow, indent=0) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record") and not hasattr(
        config, "workerinput"
    ):  # xdist's workers report to this process
        config.pluginmanager.register(Recorder())
