"""Stands for the process that converts, where the driver is measured: an engine of 200 KB, a report of a given size."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.task import ENGINE
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve


def work(request: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Do one task: its word says how many KB its report has."""
    del events, log_path
    asked = json.loads(request)
    engine = Path(asked["folder"]) / ENGINE
    engine.write_bytes(asked["source"].encode().ljust(200_000, b"."))
    routes = [f"node {number:94}" for number in range(10 * int(asked["words"][-1]))]
    report = {"converted": True, "verdict": {}, "engine": {"flavour": "tensorrt_rtx"}, "declined": routes}
    return {
        "exit_code": 0,
        "problems": [],
        "death": None,
        "warnings": [],
        "report": report,
        "bench": None,
        "seconds": {},
        "versions": {"trtsmith": "1", "tensorrt_rtx": "1.7"},
    }


if __name__ == "__main__":
    serve(sys.argv[1:], work)
