"""A folder with small models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.batch.zoo.zoos import make_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)
