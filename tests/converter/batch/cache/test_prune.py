"""Pruning: what nobody can use goes, what is asked for goes, and nothing that others need meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.cache.results import facts_of, key_of, left_behind, names_of_blobs, result
from trtsmith.converter.batch.cache import prune as pruning
from trtsmith.converter.batch.cache.cache_contents import read_contents
from trtsmith.converter.batch.cache.layout import blob_path, entry_path, temporary_path
from trtsmith.converter.batch.cache.prune import LEFT_BEHIND_S, PruneOrder, prune
from trtsmith.converter.batch.cache.store import Store
from trtsmith.converter.batch.task_record import TaskRecord

NOW = 1_000_000.0
HOUR = 3600.0
SHARED = b"shared" * 500


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Five results, the fifth used last, of 4,000 bytes each, and a file of 3,000 that all of them have."""
    cache = tmp_path / "cache"
    for number in range(1, 6):
        record = result(
            tmp_path / str(number), number, {"model.plan": b"%d" % number * 4000, "lib.so": SHARED}
        )
        store(cache).add(record, tmp_path / str(number))
        at = NOW - (6 - number) * HOUR
        os.utime(entry_path(cache, record.key), (at, at))
    return cache


def store(cache: Path) -> Store:
    return Store(cache, pytest.fail)


def found(cache: Path) -> list[int]:
    return [number for number in range(1, 10) if store(cache).find(key_of(number)) is not None]


def snapshot(cache: Path) -> dict[str, Any]:
    return {str(path): path.lstat().st_ino for path in cache.rglob("*")}


def test_a_sound_cache_stays_as_it_is(cache: Path) -> None:
    before = snapshot(cache)
    done = prune(cache, PruneOrder(), NOW)
    assert snapshot(cache) == before
    assert (done.entries, done.blobs, done.bytes, done.temporary, done.damaged) == (0, 0, 0, 0, ())
    contents = read_contents(cache)
    assert done.kept_entries == 5 and done.kept_bytes == contents.bytes > 23_000


def test_no_cache_is_an_empty_one_and_is_not_made(tmp_path: Path) -> None:
    assert prune(tmp_path / "none", PruneOrder(everything=True, damaged=True)).entries == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("hours", [0.5, 2.5, 3, 9])
def test_what_was_not_used_for_long_goes(cache: Path, hours: float) -> None:
    done = prune(cache, PruneOrder(older_than_s=hours * HOUR), NOW)
    kept = [number for number in range(1, 6) if 6 - number <= hours]
    assert found(cache) == kept and done.kept_entries == len(kept) and done.entries == 5 - len(kept)
    assert len(names_of_blobs(cache)) == len(kept) + bool(kept)


def test_a_cache_shrinks_to_a_size_and_what_was_used_last_goes_last(cache: Path) -> None:
    sizes = {number: entry_path(cache, key_of(number)).stat().st_size for number in range(1, 6)}
    room = 3000 + 2 * 4000 + sizes[4] + sizes[5]
    done = prune(cache, PruneOrder(larger_than=room), NOW)
    assert found(cache) == [4, 5] and done.kept_bytes == room == read_contents(cache).bytes
    assert done.bytes == 3 * 4000 + sizes[1] + sizes[2] + sizes[3]
    prune(cache, PruneOrder(larger_than=room - 1), NOW)
    assert found(cache) == [5]
    prune(cache, PruneOrder(larger_than=0), NOW)
    assert found(cache) == [] and names_of_blobs(cache) == set()


def test_a_use_is_what_counts(cache: Path, tmp_path: Path) -> None:
    first = store(cache).find(key_of(1))
    assert first is not None and store(cache).place(first, tmp_path / "out")
    prune(cache, PruneOrder(larger_than=9000), NOW)
    assert found(cache) == [1]


def test_everything_goes(cache: Path) -> None:
    done = prune(cache, PruneOrder(everything=True), NOW)
    assert (done.entries, done.blobs, done.kept_entries, done.kept_bytes) == (5, 6, 0, 0)
    assert [path for path in cache.rglob("*") if not path.is_dir()] == []


def test_a_dry_run_says_the_same_and_does_nothing(cache: Path) -> None:
    blob_path(cache, facts_of(b"1" * 4000).sha256).unlink()
    before = snapshot(cache)
    order = PruneOrder(larger_than=16_000)
    dry = prune(cache, PruneOrder(larger_than=16_000, dry_run=True), NOW)
    assert snapshot(cache) == before
    assert prune(cache, order, NOW) == dry and dry.entries == 3
    assert snapshot(cache) != before


def test_files_of_no_entry_go_and_entries_without_their_files(cache: Path, tmp_path: Path) -> None:
    entry_path(cache, key_of(1)).unlink()
    blob_path(cache, facts_of(b"2" * 4000).sha256).unlink()
    done = prune(cache, PruneOrder(), NOW)
    assert (done.entries, done.blobs) == (1, 1) and found(cache) == [3, 4, 5]
    assert not entry_path(cache, key_of(2)).exists()


def test_entries_that_are_damaged_go(cache: Path) -> None:
    entry_path(cache, key_of(1)).write_text("{")
    entry_path(cache, key_of(2)).unlink()
    entry_path(cache, key_of(2)).mkdir()
    done = prune(cache, PruneOrder(), NOW)
    assert (done.entries, done.blobs, len(done.damaged)) == (2, 2, 2) and found(cache) == [3, 4, 5]
    assert not os.path.lexists(entry_path(cache, key_of(2))) and left_behind(cache) == []


@pytest.mark.parametrize("kind", ["flipped", "link", "folder", "pipe"])
def test_damaged_files_are_found_by_reading_all(cache: Path, kind: str) -> None:
    path = blob_path(cache, facts_of(b"1" * 4000).sha256)
    path.unlink()
    {
        "flipped": lambda: path.write_bytes(b"1" * 3999 + b"2"),
        "link": lambda: path.symlink_to("/dev/zero"),
        "folder": lambda: (path / "in").mkdir(parents=True),
        "pipe": lambda: os.mkfifo(path),
    }[kind]()
    if kind == "flipped":
        assert prune(cache, PruneOrder(), NOW).entries == 0  # it has the right size
    done = prune(cache, PruneOrder(damaged=True), NOW)
    assert (done.entries, done.blobs, len(done.damaged)) == (1, 1, 1) and path.name in done.damaged[0]
    assert found(cache) == [2, 3, 4, 5] and not os.path.lexists(path) and left_behind(cache) == []
    assert prune(cache, PruneOrder(damaged=True), NOW).damaged == ()


def test_temporary_files_go_once_nobody_can_be_at_them(cache: Path) -> None:
    for _ in range(2):
        temporary_path(cache).write_text("half")
    temporary_path(cache).mkdir()
    (cache / "tmp" / "notes.txt").write_text("not ours")
    now = os.stat(left_behind(cache)[0]).st_ctime
    assert prune(cache, PruneOrder(everything=True), now + LEFT_BEHIND_S - 60).temporary == 0
    assert prune(cache, PruneOrder(), now + LEFT_BEHIND_S + 60).temporary == 3
    assert left_behind(cache) == [] and (cache / "tmp" / "notes.txt").exists()


def test_files_of_others_stay(cache: Path) -> None:
    theirs = [
        cache / "README",
        cache / "objects" / "notes",
        cache / "objects" / "ab" / "short",
        cache / "objects" / "ab" / ("cd" * 32),
        cache / "entries" / "ab" / f"{'ab' * 32}.txt",
    ]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs")
    prune(cache, PruneOrder(everything=True), NOW)
    assert all(path.read_text() == "theirs" for path in theirs)


def test_links_out_of_the_cache_are_not_followed(cache: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    free = next(f"{n:02x}" for n in range(256) if not (cache / "objects" / f"{n:02x}").exists())
    victim = outside / (free * 32)
    victim.write_text("precious")
    (cache / "objects" / free).symlink_to(outside)
    prune(cache, PruneOrder(everything=True), NOW)
    assert victim.read_text() == "precious"


def test_what_was_placed_stays_when_all_is_pruned(cache: Path, tmp_path: Path) -> None:
    record = store(cache).find(key_of(3))
    assert record is not None and store(cache).place(record, tmp_path / "out")
    prune(cache, PruneOrder(everything=True), NOW)
    assert (tmp_path / "out" / "model.plan").read_bytes() == b"3" * 4000
    assert not store(cache).place(record, tmp_path / "out2")


def add_while(
    monkeypatch: pytest.MonkeyPatch, step: str, cache: Path, tmp_path: Path, *, after: bool
) -> TaskRecord:
    """A result that another process adds at one moment of the pruning. It needs a blob that is there without an entry."""
    data = {"model.plan": b"7" * 4000}
    record = result(tmp_path / "7", 7, data)
    real: Callable[..., Any] = getattr(pruning, step)

    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr(pruning, step, real)
        if not after:
            store(cache).add(record, tmp_path / "7")
        done = real(*arguments)
        if after:
            store(cache).add(record, tmp_path / "7")
        return done

    store(cache).add(result(tmp_path / "orphan", 8, data), tmp_path / "orphan")
    entry_path(cache, key_of(8)).unlink()
    monkeypatch.setattr(pruning, step, meanwhile)
    return record


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "step", ["read_contents", "_kept", "_left_behind", "_remove_blobs", "_needed_by_new"]
)
def test_what_is_added_meanwhile_is_whole(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    record = add_while(monkeypatch, step, cache, tmp_path, after=after)
    prune(cache, PruneOrder(), NOW)
    assert store(cache).find(record.key) == record
    assert store(cache).place(record, tmp_path / "out")
    assert found(cache) == [1, 2, 3, 4, 5, 7] and left_behind(cache) == []


def test_a_damaged_file_is_not_put_back_for_an_entry_that_is_new(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = add_while(monkeypatch, "_remove_blobs", cache, tmp_path, after=False)
    blob = blob_path(cache, record.files["model.plan"].sha256)
    blob.unlink()
    blob.write_bytes(b"8" * 4000)
    assert len(prune(cache, PruneOrder(damaged=True), NOW).damaged) == 1
    assert not blob.exists() and found(cache) == [1, 2, 3, 4, 5]


def test_what_cannot_be_removed_is_told_and_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its files: an entry without them would be of no use."""
    real = pruning.discard

    def refuses(cache: Path, path: Path) -> None:
        if path == entry_path(cache, key_of(1)):
            raise PermissionError(1, "Operation not permitted")
        real(cache, path)

    monkeypatch.setattr(pruning, "discard", refuses)
    done = prune(cache, PruneOrder(everything=True), NOW)
    assert done.failed == (f"{entry_path(cache, key_of(1))}: Operation not permitted",)
    assert (done.entries, done.blobs, done.kept_entries) == (4, 4, 1)
    assert done.kept_bytes == read_contents(cache).bytes > 7000
    assert found(cache) == [1]


def test_an_entry_that_may_not_be_read_keeps_its_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would be files of no entry."""
    from trtsmith.converter.batch.cache import cache_contents

    def refuses(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    before = snapshot(cache)
    monkeypatch.setattr(cache_contents, "read_entry", refuses)
    with pytest.raises(PermissionError):
        prune(cache, PruneOrder(), NOW)
    assert snapshot(cache) == before


def test_contents_hold_no_reports(cache: Path, tmp_path: Path) -> None:
    """A cache may have thousands of them, of some MiB each."""
    record = replace(result(tmp_path / "6", 6), report={"nodes": ["n"]}, bench={"runs": []})
    store(cache).add(record, tmp_path / "6")
    kept = read_contents(cache).entries[record.key].record
    assert (kept.report, kept.bench, kept.files) == (None, None, record.files)
    assert store(cache).find(record.key) == record
