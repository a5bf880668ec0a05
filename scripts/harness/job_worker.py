"""Child side of jobs.py: runs the jobs of one module in turn, in a process with TensorRT-RTX and onnxruntime."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.jobs import RETIRE
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve


class _Jobs:
    """The state of a worker. work: the function of the module that setup named. retired: whether this job is the last one
    here.
    """

    work: Callable[[str], dict[str, Any]]
    retired = False


def setup(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    import onnxruntime  # noqa: F401  so that no job's time goes into it
    import tensorrt_rtx  # noqa: F401

    del events, log_path
    asked = json.loads(request)
    work = import_module(asked["module"]).work
    _Jobs.work = partial(work, folder=Path(asked["folder"]), **asked["options"])
    return {}


def run(request: str, events: Events, log_path: Path) -> dict[str, Any]:
    del events, log_path
    found = _Jobs.work(request)
    _Jobs.retired = bool(found.pop(RETIRE, False))
    return found


if __name__ == "__main__":
    serve(sys.argv[1:], run, setup=setup, spent=lambda: _Jobs.retired)
