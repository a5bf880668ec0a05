"""The store: what was added is found and placed, and nothing that is damaged, hostile or half-written ever is."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.cache.results import (
    ENGINE,
    bytes_in,
    facts_of,
    key_of,
    left_behind,
    names_of_blobs,
    result,
)
from trtsmith.converter.batch.cache import blobs
from trtsmith.converter.batch.cache.layout import blob_path, default_folder, entry_path
from trtsmith.converter.batch.cache.store import Store
from trtsmith.converter.batch.task_record import FileFacts, Status, TaskRecord
from trtsmith.importers.problem import Problem


class Kept:
    """A cache with one result in it, and the warnings that it gave."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.cache = folder / "cache"
        self.store = Store(self.cache, self.said.append)
        self.record = result(
            folder / "made", "first", {"model.plan": ENGINE, "lib.so": b"library", "empty": b""}
        )
        self.store.add(self.record, folder / "made")
        self.blob = blob_path(self.cache, facts_of(ENGINE).sha256)
        self.entry = entry_path(self.cache, self.record.key)
        self.out = folder / "deep" / "out"

    def place(self) -> bool:
        return self.store.place(self.record, self.out)

    def warned(self, *words: str) -> None:
        """There is one warning; it has four parts, and these words."""
        (text,) = self.said
        assert re.findall(r"^  (where|expected|fix): +\S", text, re.M) == ["where", "expected", "fix"], text
        for word in words:
            assert word in text, (word, text)
        self.said.clear()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    kept = Kept(tmp_path)
    assert kept.said == []
    return kept


def test_what_was_added_is_found_and_placed_by_links(kept: Kept) -> None:
    assert kept.store.find(kept.record.key) == kept.record
    assert kept.place()
    assert bytes_in(kept.out) == {"model.plan": ENGINE, "lib.so": b"library", "empty": b""}
    placed = (kept.out / "model.plan").stat()
    assert placed.st_ino == kept.blob.stat().st_ino and placed.st_mode & 0o777 == 0o444
    assert left_behind(kept.cache) == [] and kept.said == []


def test_an_unknown_key_is_a_miss_and_so_is_what_is_none(kept: Kept) -> None:
    for key in (
        key_of("other"),
        "",
        "../../etc/passwd",
        kept.record.key.upper(),
        kept.record.key + "\n",
        "ab" * 31,
    ):
        assert kept.store.find(key) is None
    assert Store(kept.cache / "nowhere", kept.said.append).find(kept.record.key) is None
    assert not (kept.cache / "nowhere").exists() and kept.said == []


def test_a_record_comes_back_with_all_that_it_said(kept: Kept, tmp_path: Path) -> None:
    record = replace(
        result(tmp_path / "b", "b", {}, Status.REFUSED),
        problems=(Problem("what\n", "where", "expected", "fix <script>"),),
        report={"converted": False, "errors": [1.5, float("inf")]},
        warnings=("w",),
        seconds={"total": 1.5},
        command=("trtsmith", "\udcff"),
    )
    kept.store.add(record, tmp_path / "b")
    assert kept.store.find(record.key) == record
    assert kept.store.place(record, kept.out) and bytes_in(kept.out) == {}


@pytest.mark.parametrize("status", Status)
def test_what_may_end_otherwise_next_time_is_not_kept(kept: Kept, tmp_path: Path, status: Status) -> None:
    record = result(tmp_path / "b", "b", {"model.plan": b"b"}, status)
    kept.store.add(record, tmp_path / "b")
    assert (kept.store.find(record.key) is not None) == status.settled
    assert kept.entry.exists() and kept.said == []


def test_a_record_without_a_key_is_not_kept(kept: Kept, tmp_path: Path) -> None:
    before = names_of_blobs(kept.cache)
    kept.store.add(replace(result(tmp_path / "b", "b", {"a": b"b"}), key=""), tmp_path / "b")
    assert names_of_blobs(kept.cache) == before


def test_files_that_two_results_share_are_there_once(kept: Kept, tmp_path: Path) -> None:
    before = names_of_blobs(kept.cache)
    record = result(tmp_path / "b", "b", {"other.plan": ENGINE})
    kept.store.add(record, tmp_path / "b")
    assert names_of_blobs(kept.cache) == before and kept.store.place(record, kept.out)
    kept.store.add(record, kept.out)  # what was placed is added again: links of one file
    assert left_behind(kept.cache) == [] and kept.said == []


def test_a_result_that_is_added_again_takes_the_place_of_the_first(kept: Kept, tmp_path: Path) -> None:
    record = result(tmp_path / "b", "first", {"model.plan": b"built again"})
    kept.store.add(record, tmp_path / "b")
    assert kept.store.find(record.key) == record


def test_files_that_are_not_what_the_record_says_are_not_kept(kept: Kept, tmp_path: Path) -> None:
    record = result(tmp_path / "b", "b", {"model.plan": b"b" * 9})
    for data in (b"c" * 9, b"b"):
        (tmp_path / "b" / "model.plan").write_bytes(data)
        kept.store.add(record, tmp_path / "b")
        kept.warned("net/fp16", "not put into the cache")
    (tmp_path / "b" / "model.plan").unlink()
    (tmp_path / "b" / "model.plan").symlink_to(kept.blob)
    kept.store.add(record, tmp_path / "b")
    kept.warned("net/fp16", "no regular file")
    (tmp_path / "b" / "model.plan").unlink()
    kept.store.add(record, tmp_path / "b")
    kept.warned("net/fp16", "model.plan is not there")
    assert kept.store.find(record.key) is None and left_behind(kept.cache) == []


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[7] ^= 4
    path.chmod(0o600)
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.chmod(0o600)
    os.truncate(path, 3)


def longer(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b"more")


def link(path: Path) -> None:
    """To the right bytes, and yet whoever owns them may change them."""
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def gone_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE = [flip, truncate, longer, link, gone_link, folder, pipe]


@pytest.mark.parametrize("copies", [False, True], ids=["links", "copies"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_blob_is_removed_and_told_and_a_miss(
    kept: Kept, damage: Callable[[Path], None], copies: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if copies:
        no_links(monkeypatch)
    damage(kept.blob)
    assert not kept.place()
    kept.warned("model.plan", "damaged", str(kept.blob))
    assert not kept.out.exists() and not os.path.lexists(kept.blob)
    assert kept.store.find(kept.record.key) is None and kept.said == []
    record = result(tmp_path / "again", "first", {"model.plan": ENGINE})
    kept.store.add(record, tmp_path / "again")
    assert kept.store.place(record, kept.out) and bytes_in(kept.out) == {"model.plan": ENGINE}
    assert left_behind(kept.cache) == []


@pytest.mark.parametrize("damage", DAMAGE[1:])
def test_a_blob_of_another_kind_or_size_gives_way_to_a_sound_one(
    kept: Kept, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    damage(kept.blob)
    record = result(tmp_path / "again", "again", {"model.plan": ENGINE})
    kept.store.add(record, tmp_path / "again")
    assert kept.store.place(record, kept.out) and kept.said == [] and left_behind(kept.cache) == []


def test_a_sound_blob_that_has_taken_the_place_of_a_damaged_one_stays(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = blobs._check

    def replaced_meanwhile(descriptor: int, facts: FileFacts) -> None:
        kept.blob.unlink()
        kept.blob.write_bytes(ENGINE)
        real(descriptor, facts)

    flip(kept.blob)
    monkeypatch.setattr(blobs, "_check", replaced_meanwhile)
    assert not kept.place()
    assert kept.blob.read_bytes() == ENGINE


def test_a_blob_that_is_gone_is_a_miss_without_a_word(kept: Kept) -> None:
    kept.blob.unlink()
    assert not kept.place() and not kept.out.exists()
    assert kept.store.find(kept.record.key) is None and kept.said == []


def test_a_placement_that_fails_leaves_what_was_there(kept: Kept) -> None:
    kept.out.mkdir(parents=True)
    (kept.out / "log.txt").write_text("mine")
    blob_path(kept.cache, facts_of(b"").sha256).unlink()
    assert not kept.place() and bytes_in(kept.out) == {"log.txt": b"mine"}


def test_a_folder_that_cannot_be_written_is_told_to_the_caller(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        kept.store.place(kept.record, tmp_path / "file")
    kept.out.mkdir(parents=True)
    (kept.out / "lib.so").write_text("in the way")
    with pytest.raises(FileExistsError):
        kept.place()
    assert bytes_in(kept.out) == {"lib.so": b"in the way"} and kept.blob.exists() and kept.said == []


def no_links(monkeypatch: pytest.MonkeyPatch, number: int = errno.EXDEV) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuses)


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


HOSTILE: list[Any] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"schema": ' + b"9" * 5000 + b"}",
    {"schema": 2},
    {"status": "timeout"},
    {"status": "fine"},
    {"status": ["agree"]},
    {"key": key_of("another")},
    {"key": None},
    {"name": 5},
    {"variant": []},
    {"variant": {"a": 1}},
    {"problems": [{"what": 1, "where": "", "expected": "", "fix": ""}]},
    {"problems": {"what": ""}},
    {"report": []},
    {"seconds": {"total": "1"}},
    {"began": 5},
    {"warnings": [5]},
    {"command": 5},
    {"files": []},
    {"files": {"model.plan": 5}},
    *(
        {"files": {name: {"sha256": "ab" * 32, "bytes": 1}}}
        for name in (
            "",
            ".",
            "..",
            "../model.plan",
            "/etc/passwd",
            "a/b",
            "a\0b",
            "a\\b",
            "record.json",
            "a\nb",
            "a" * 300,
        )
    ),
    *(
        {"files": {"model.plan": {"sha256": digest, "bytes": 1}}}
        for digest in ("", "AB" * 32, "../" * 21 + "a", "ab" * 31, 5, None)
    ),
    *(
        {"files": {"model.plan": {"sha256": "ab" * 32, "bytes": size}}}
        for size in (-1, 1.5, True, "1", 2**64, None)
    ),
    {"files": {"model.plan": {"sha256": "ab" * 32, "bytes": 1, "more": 1}}},
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: repr(change)[:50])
def test_a_hostile_entry_is_removed_and_told_and_a_miss(kept: Kept, change: bytes | dict[str, Any]) -> None:
    if isinstance(change, dict):
        change = json.dumps(kept.record.to_json() | change).encode()
    kept.entry.write_bytes(change)
    assert kept.store.find(kept.record.key) is None
    kept.warned("an entry of the cache is not used", str(kept.entry))
    assert not kept.entry.exists()
    assert kept.store.find(kept.record.key) is None and kept.said == []


def test_what_a_hostile_entry_says_stays_short(kept: Kept) -> None:
    kept.entry.write_text(json.dumps(kept.record.to_json() | {"key": "x" * 10_000_000}))
    assert kept.store.find(kept.record.key) is None
    assert len(kept.said[0]) < 1000


@pytest.mark.parametrize("damage", [gone_link, folder, pipe])
def test_an_entry_that_is_no_file_is_a_miss_and_nobody_waits(
    kept: Kept, damage: Callable[[Path], None]
) -> None:
    damage(kept.entry)
    assert kept.store.find(kept.record.key) is None
    kept.warned("no regular file")


def test_a_record_with_hostile_names_is_neither_kept_nor_placed(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(ENGINE)
    record = replace(kept.record, key=key_of("b"), files={"../victim": facts_of(ENGINE)})
    (tmp_path / "made").mkdir(exist_ok=True)
    kept.store.add(record, tmp_path / "made")
    kept.warned("plain file name")
    assert kept.store.find(record.key) is None


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


def test_a_hit_is_a_use(kept: Kept) -> None:
    os.utime(kept.entry, (1, 1))
    kept.store.find(kept.record.key)
    assert kept.entry.stat().st_mtime == 1
    assert kept.place() and kept.entry.stat().st_mtime > 1


def test_a_hit_that_cannot_be_marked_is_a_hit(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuses)
    assert kept.place() and kept.said == []


def test_a_blob_that_is_pruned_while_an_entry_is_written_is_put_again(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from trtsmith.converter.batch.cache import store

    record = result(tmp_path / "b", "b", {"model.plan": b"new"})
    real, times = store.write_entry, []

    def pruned_before(cache: Path, record: TaskRecord) -> None:
        if not times:
            blob_path(cache, record.files["model.plan"].sha256).unlink()
        times.append(1)
        real(cache, record)

    monkeypatch.setattr(store, "write_entry", pruned_before)
    kept.store.add(record, tmp_path / "b")
    assert kept.store.place(record, kept.out) and len(times) == 2


def test_where_a_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trtsmith.converter.compile import sdk

    assert default_folder({}, tmp_path) == sdk._ROOT / ".cache" / "batch"  # a checkout keeps its own
    monkeypatch.setattr(sdk, "_ROOT", tmp_path)
    assert default_folder({}, tmp_path) == tmp_path / ".cache" / "trtsmith" / "batch"
    assert default_folder({"XDG_CACHE_HOME": "/x"}, tmp_path) == Path("/x/trtsmith/batch")
    assert default_folder({"XDG_CACHE_HOME": "/x", "TRTSMITH_CACHE": "/team/cache"}, tmp_path) == Path(
        "/team/cache"
    )
