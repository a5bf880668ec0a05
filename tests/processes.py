"""Processes that tests start: with this checkout first on their module path, whatever is installed."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def checkout_environment(**more: object) -> dict[str, str]:
    """This process's environment with `trtsmith` importable from this checkout. more: further variables."""
    paths = (str(ROOT), os.environ.get("PYTHONPATH"))
    path = os.pathsep.join(filter(None, paths))
    return {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in more.items()}}
