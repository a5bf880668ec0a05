"""A folder is written completely or not at all, and replaces nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.scaffold.folder import write_folder

FILES = {"a.txt": b"a", "inner/b.txt": b"b"}


def test_new_and_empty_folders_are_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        write_folder(tmp_path / name, FILES)
        assert (tmp_path / name / "inner" / "b.txt").read_bytes() == b"b"
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "new"]


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, words in (
        ("full", "remove this one first"),
        ("file", "a file of that name"),
        ("link", "a file of that name"),
    ):
        with pytest.raises(UsageError, match=words):
            write_folder(tmp_path / name, FILES)
    assert (tmp_path / "full" / "mine.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "link"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_folder(tmp_path / "gone" / "new", FILES)


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_folder(tmp_path / "new", {"a": b"", "a/b": b"a is a file, and not a folder"})
    assert list(tmp_path.iterdir()) == []
