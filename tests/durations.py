"""Records how long every part of the suite takes: pytest --record-durations FILE."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections import Counter, defaultdict
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

SLOWEST = 50
PACKAGES = ("pytest", "pytest-xdist", "onnx", "onnxruntime", "torch", "tensorrt-rtx")


class DurationRecord:
    """A plugin of the process that prints the results: sums the phases of every test, and writes the file at the end."""

    def __init__(self, path: Path, workers: int) -> None:
        self._path = path
        self._workers = workers
        self._began = time.monotonic()
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._outcomes: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self._outcomes[report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(
            json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    def document(self) -> dict[str, Any]:
        """wall_s: of the whole run, on `workers` processes. folders, slowest: seconds of one process."""
        folders: Counter[str] = Counter()
        for test, seconds in self._tests.items():
            folders["/".join(test.partition("::")[0].split("/")[:-1])] += seconds
        slowest = sorted(self._tests.items(), key=lambda item: -item[1])[:SLOWEST]
        return {
            "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.system()},
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in PACKAGES},
            "date": date.today().isoformat(),
            "workers": self._workers,
            "wall_s": round(time.monotonic() - self._began, 1),
            "sum_s": round(sum(self._tests.values()), 1),
            "tests": len(self._tests),
            "outcomes": dict(sorted(self._outcomes.items())),
            "folders": {name: round(seconds, 1) for name, seconds in folders.most_common()},
            "slowest": {name: round(seconds, 2) for name, seconds in slowest},
        }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
