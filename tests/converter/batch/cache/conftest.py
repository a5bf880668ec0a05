"""A cache for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.batch.cache.damage import Kept


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    kept = Kept(tmp_path)
    assert kept.said == []
    return kept
