"""Scratch folders are removed at the end of their block or object, or by the next command after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.processes import checkout_environment
from trtsmith.converter.base.process.scratch_folder import ScratchFolder, remove_left_folders

KILLED = """
import os, signal
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
folder = ScratchFolder("convert")
open(os.path.join(folder.name, "weights"), "w").close()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_goes_with_its_block(temporary: Path) -> None:
    with ScratchFolder("check") as name:
        assert Path(name).parent == temporary and os.stat(name).st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


def test_a_folder_goes_with_its_object(temporary: Path) -> None:
    folder = ScratchFolder("check")
    del folder
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_process_that_was_killed_is_removed_and_no_other(temporary: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED], env={**checkout_environment(), "TMPDIR": str(temporary)}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    (left,) = temporary.iterdir()
    assert (left / "weights").is_file()
    theirs = temporary / "trtsmith-mine"
    theirs.mkdir()
    (temporary / "trtsmith-link-12345678.scratch").symlink_to(theirs)
    with ScratchFolder("run") as mine:
        remove_left_folders()
        assert Path(mine).is_dir() and theirs.is_dir() and not left.exists()


def test_no_place_for_temporary_files_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    remove_left_folders()
