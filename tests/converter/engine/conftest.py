"""Provides the library of a plugin that ends its process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.engine.builder.identity import compile_library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("identity") / "libidentity.so")
