"""Jobs for test_jobs.py, which run in workers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from harness.jobs import RETIRE


def work(job: str, folder: Path, word: str = "") -> dict[str, Any]:
    if job == "crash":
        os.kill(os.getpid(), signal.SIGABRT)
    if job == "hang":
        time.sleep(600)
    if job == "fail":
        raise ValueError("no")
    if job == "exit":
        os.write(2, b"the last words\n")
        os._exit(3)
    return {"pid": os.getpid(), "got": job, "folder": str(folder), "word": word, RETIRE: job == "last"}
