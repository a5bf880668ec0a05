"""Provides commands in this process, and a folder for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.cli.commands.running import Cli, Ran, trtsmith


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(words: object = "", *more: object) -> Ran:
        return trtsmith(capsys, *(words.split() if isinstance(words, str) else [words]), *more)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
