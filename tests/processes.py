"""Processes that tests start: with this checkout first on their module path, whatever is installed; and which are left."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def children() -> set[int]:
    """The processes that this one has started and not yet waited for; the workers of tests/builds.py among them."""
    return set(map(int, Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()))


def checkout_environment(**more: object) -> dict[str, str]:
    """This process's environment with `trtsmith` importable from this checkout. more: further variables."""
    paths = (str(ROOT), os.environ.get("PYTHONPATH"))
    path = os.pathsep.join(filter(None, paths))
    return {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in more.items()}}
