"""File systems without links, without room, and without permission: the batch goes on, and nothing half-written is seen."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.cache.damage import Kept, flip, no_links
from tests.converter.batch.cache.results import (
    ENGINE,
    bytes_in,
    left_behind,
    result,
)
from trtsmith.converter.batch.cache.layout import blob_path
from trtsmith.converter.batch.cache.store import Store


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP])
def test_where_there_are_no_links_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    no_links(monkeypatch, number)
    kept = Kept(tmp_path)
    assert kept.place() and bytes_in(kept.out) == bytes_in(tmp_path / "made")
    assert (kept.out / "model.plan").stat().st_mode & 0o777 == 0o444
    assert (
        len(
            {
                path.stat().st_ino
                for path in (kept.out / "model.plan", kept.blob, tmp_path / "made" / "model.plan")
            }
        )
        == 3
    )
    assert kept.said == [] and left_behind(kept.cache) == []


def test_a_real_other_file_system(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev or not os.access(other, os.W_OK):
        pytest.skip("needs /dev/shm on a file system of its own")
    folder = other / f"trtsmith-test-{os.getpid()}"
    said: list[str] = []
    try:
        record = result(folder / "made")
        store = Store(tmp_path / "cache", said.append)
        store.add(record, folder / "made")
        assert store.place(record, folder / "out") and bytes_in(folder / "out") == {"model.plan": ENGINE}
        flip(blob_path(tmp_path / "cache", record.files["model.plan"].sha256))
        assert not store.place(record, folder / "out2") and not (folder / "out2").exists() and len(said) == 1
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("call", ["link", "fsync", "replace", "mkdir", "open"])
def test_a_cache_that_refuses_is_told_once_and_shows_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    kept = Kept(tmp_path)
    real = getattr(os, call)

    def refuses(path: Any, *rest: Any, **named: Any) -> Any:
        writes = call != "open" or (rest and rest[0] & os.O_WRONLY)
        if writes and (call == "fsync" or str(kept.cache) in f"{path} {rest}"):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *rest, **named)

    record = result(tmp_path / "b", "b", {"model.plan": b"other bytes"})
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuses)
        kept.store.add(record, tmp_path / "b")
        if call == "link" and number == errno.EACCES:
            assert kept.said == []  # copied instead
            return
        kept.warned("cannot be written", os.strerror(number), "--cache")
        kept.store.add(record, tmp_path / "b")
        assert kept.said == []
    assert kept.store.find(record.key) is None and left_behind(kept.cache) == []
    assert kept.store.find(kept.record.key) == kept.record and kept.place()
    kept.store.add(record, tmp_path / "b")
    assert kept.store.find(record.key) == record


def test_a_really_full_disk(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    said: list[str] = []
    try:
        store = Store(small / "cache", said.append)
        first = result(tmp_path / "a", "a", {"model.plan": b"a" * 8192})
        store.add(first, tmp_path / "a")
        assert said == []
        second = result(tmp_path / "b", "b", {"model.plan": b"b" * 100_000})
        store.add(second, tmp_path / "b")
        assert "No space left" in said[0] and "prune" in said[0]
        assert store.find(second.key) is None and left_behind(small / "cache") == []
        assert store.place(first, tmp_path / "out") and bytes_in(tmp_path / "out") == {
            "model.plan": b"a" * 8192
        }
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_cache_below_a_file_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    store = Store(tmp_path / "file" / "cache", said.append)
    record = result(tmp_path / "made")
    store.add(record, tmp_path / "made")
    assert store.find(record.key) is None
    assert any("cannot be written" in text for text in said)
