"""Runs a module in a child process, and returns its result or a description of its death.

converter/engine/child/serve.py is the child's side. For many calls of one module there is converter/engine/child/pool.py.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from trtsmith.converter.base.progress import Progress
from trtsmith.converter.engine.child.exits import ChildDied
from trtsmith.converter.engine.child.pool import Pool

__all__ = ["ChildDied", "Progress", "run_child"]


def run_child(
    module: str,
    request_json: str,
    flavour: str,
    *,
    timeout_s: float | None = None,
    log_path: Path | None = None,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Runs `module` with a request, and returns the payload of its `result` event.

    flavour:     the TensorRT that the child will import, which decides its environment.
    log_path:    an absolute path to keep the log at, once the child has ended; None drops it.
    on_progress: gets one short line for each step.

    Raises UsageError or ConversionError with the problems that the child sent, MemoryError where it ran out of the address
    space that is allowed (ulimit -v), and ChildDied where it ended otherwise without a word or ran out of time. Nothing of
    the child is left then: Ctrl-C ends it too.
    """
    with Pool(module, flavour=flavour, start_s=timeout_s) as pool:
        try:
            return pool.ask(request_json, timeout_s, on_progress, log_path)
        except ChildDied as death:
            limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
            if limited and "std::bad_alloc" in death.log:
                raise MemoryError("std::bad_alloc in the process that runs TensorRT") from death
            raise
