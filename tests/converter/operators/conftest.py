"""Shared by the tests of modules with operators."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def forgotten_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules that a test imports are forgotten after it, and the user's own packages are none of it."""
    monkeypatch.delenv("TRTSMITH_OPS", raising=False)
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]
