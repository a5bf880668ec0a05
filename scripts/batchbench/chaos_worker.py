"""Stands for the process that converts, in a batch where everything fails that can: it does what a task's words say.

An engine's bytes say of which model's bytes it is. The word `real` hands the task to the process that does convert.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchbench.chaos_log import write_begin
from trtsmith.converter.batch.task import ENGINE
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve


def engine_of(model: Path) -> bytes:
    """What this worker makes of a model: 200 KB."""
    return hashlib.sha256(model.read_bytes()).digest() * 6400


def work(request: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """Do one task."""
    asked = json.loads(request)
    words = dict(word.partition("=")[::2] for word in asked["words"])
    if "log" in words:
        write_begin(Path(words.pop("log")), asked["name"])
    if "real" in words:
        from trtsmith.converter.cli.batch_worker import work as convert

        return convert(json.dumps({**asked, "words": []}), events, log_path)
    events.phase("at work")
    if "kill-host" in words and not Path(words["kill-host"]).exists():
        Path(words["kill-host"]).write_text(str(os.getppid()))
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    if "crash" in words:
        ctypes.string_at(0)
    time.sleep(float(words.get("nap", 0)))
    problems = []
    if "refuse" in words:
        problems = [
            {"what": "no such operator", "where": asked["source"], "expected": "another", "fix": "none"}
        ]
    else:
        (Path(asked["folder"]) / ENGINE).write_bytes(engine_of(Path(asked["source"])))
    return {
        "exit_code": 1 if problems else 0,
        "problems": problems,
        "death": None,
        "warnings": [],
        "report": {"converted": not problems, "verdict": {}, "engine": {"flavour": "tensorrt_rtx"}},
        "bench": None,
        "seconds": {},
        "versions": {"trtsmith": "1", "tensorrt_rtx": "1.7"},
    }


if __name__ == "__main__":
    serve(sys.argv[1:], work)
