"""Ends tasks that Ray has, and waits until they are gone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

CANCEL_S = 5.0
"""For tasks that were cancelled to be gone, and again for those that had to be killed."""


def cancel_all(ray: Any, generators: Sequence[Any]) -> None:
    """Cancel them. A worker that does not heed it is killed."""
    left = list(generators)
    for force in (False, True):
        for generator in left:
            ray.cancel(generator, force=force)
        until = time.monotonic() + CANCEL_S
        left = [generator for generator in left if not _is_over(ray, generator, until)]


def _is_over(ray: Any, generator: Any, until: float) -> bool:
    """Whether Ray says so, at the latest then. Its items are left: to read the next one may take as long as the task."""
    left = max(0.0, until - time.monotonic())
    ready, _ = ray.wait([generator.completed()], timeout=left, fetch_local=False)
    return bool(ready)
