"""The cache finds what was added, detects and replaces damaged entries, and prunes the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.converter.batch.cached import (
    ENGINE,
    bytes_in,
    change,
    facts_of,
    key_of,
    left_behind,
    names_of_blobs,
    result,
)
from tests.converter.model.builders import rich_model, save_external
from tests.processes import checkout_environment
from trtsmith.converter.batch.store import (
    INDEX,
    LEFT_BEHIND_S,
    PruneOrder,
    Store,
    blob_path,
    default_folder,
    prune,
    read_contents,
    temporary_path,
)
from trtsmith.converter.batch.task import TaskRecord, TaskStatus
from trtsmith.converter.model.load import load_model
from trtsmith.importers.problem import Problem

NOW = 1_000_000.0
HOUR = 3600.0
SHARED = b"shared" * 500


class Kept:
    """A cache with one result."""

    def __init__(self, home: Path) -> None:
        self.said: list[str] = []
        self.cache, self.out, self.made = home / "cache", home / "out", home / "made"
        self.store = Store(self.cache, self.said.append)
        self.record = result(self.made, "one", {"model.plan": ENGINE, "lib.so": b"library", "empty": b""})
        self.store.add(self.record, self.made)

    @property
    def blob(self) -> Path:
        return blob_path(self.cache, facts_of(ENGINE).sha256)

    def place(self) -> bool:
        return self.store.place(self.record, self.out)

    def warned(self, *parts: str) -> None:
        (said,) = self.said
        assert all(part in said for part in parts), said
        self.said.clear()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_what_was_added_is_found_and_placed_by_links(kept: Kept) -> None:
    assert kept.store.find(kept.record.key) == kept.record and kept.place()
    assert bytes_in(kept.out) == {"model.plan": ENGINE, "lib.so": b"library", "empty": b""}
    placed = (kept.out / "model.plan").stat()
    assert placed.st_ino == kept.blob.stat().st_ino and placed.st_mode & 0o777 == 0o444
    assert left_behind(kept.cache) == [] and kept.said == []


def test_a_model_comes_out_of_the_cache_and_is_converted(kept: Kept, tmp_path: Path) -> None:
    """A hard link is refused as external data: nobody knows what its other name is."""
    made = tmp_path / "made2"
    made.mkdir()
    save_external(rich_model(), made / "net.onnx", "net.onnx.data")
    files = {path.name: path.read_bytes() for path in made.iterdir()}
    record = result(made, "with a model", {**files, "model.plan": ENGINE})
    kept.store.add(record, made)
    assert load_model(made / "net.onnx")
    assert kept.store.place(record, kept.out) and kept.said == []
    assert {name: (kept.out / name).stat().st_nlink for name in files} == dict.fromkeys(files, 1)
    assert load_model(kept.out / "net.onnx")


def test_the_umask_says_who_may_read_the_cache(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        kept = Kept(tmp_path)
        assert kept.place()
    finally:
        os.umask(before)
    paths = [path for path in (*kept.cache.rglob("*"), *kept.out.iterdir()) if path.is_file()]
    assert paths and all(path.stat().st_mode & 0o077 == 0 for path in paths)


def test_an_unknown_key_is_a_miss_and_so_is_what_is_none(kept: Kept) -> None:
    for key in (key_of("other"), "", "../../etc/passwd", kept.record.key.upper(), kept.record.key + "\n"):
        assert kept.store.find(key) is None
    assert Store(kept.cache / "nowhere", kept.said.append).find(kept.record.key) is None
    assert not (kept.cache / "nowhere").exists() and kept.said == []


def test_a_record_comes_back_with_all_that_it_said(kept: Kept, tmp_path: Path) -> None:
    record = replace(
        result(tmp_path / "b", "b", {}, TaskStatus.REFUSED),
        problems=(Problem("what\n", "where", "expected", "fix <script>"),),
        report={"converted": False, "errors": [1.5, float("inf")]},
        warnings=("w",),
        command=("trtsmith", "\udcff"),
    )
    kept.store.add(record, tmp_path / "b")
    assert kept.store.find(record.key) == record
    assert kept.store.place(record, kept.out) and bytes_in(kept.out) == {}


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "record.json", "a\nb", "", ".."])
def test_a_record_names_files_beside_it_and_no_others(kept: Kept, tmp_path: Path, name: str) -> None:
    document = kept.record.to_json() | {"files": {name: {"sha256": "0" * 64, "bytes": 0}}}
    change(kept.cache, "UPDATE entries SET record = ?", json.dumps(document))
    assert kept.store.find(kept.record.key) is None
    kept.warned("is no plain file name")


def test_files_that_are_not_what_the_record_says_are_not_kept(kept: Kept, tmp_path: Path) -> None:
    record = result(tmp_path / "b", "b", {"model.plan": b"b" * 9})
    engine = tmp_path / "b" / "model.plan"
    engine.write_bytes(b"c" * 9)
    kept.store.add(record, tmp_path / "b")
    kept.warned("net/fp16", "cannot be cached")
    engine.unlink()
    engine.symlink_to(kept.blob)
    kept.store.add(record, tmp_path / "b")
    kept.warned("net/fp16", "no regular file")
    assert kept.store.find(record.key) is None and left_behind(kept.cache) == []


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flipped": lambda path: path.write_bytes(b"X" * len(ENGINE)),
    "short": lambda path: path.write_bytes(b"X"),
    "link": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_told_removed_and_put_again(kept: Kept, kind: str) -> None:
    kept.blob.unlink()
    DAMAGE[kind](kept.blob)
    done = prune(kept.cache, PruneOrder(damaged=True, dry_run=True))
    assert len(done.damaged) == 1 and done.entries == 1
    assert not kept.place() and not kept.out.exists()
    kept.warned("model.plan", "damaged")
    assert not os.path.lexists(kept.blob)
    (kept.made / "model.plan").unlink()
    (kept.made / "model.plan").write_bytes(ENGINE)
    kept.store.add(kept.record, kept.made)
    assert kept.place() and kept.said == []


def test_an_index_that_is_none_is_told_and_all_makes_a_new_one(kept: Kept) -> None:
    (kept.cache / INDEX).write_bytes(b"no database" * 1000)
    assert kept.store.find(kept.record.key) is None
    kept.warned("the cache cannot be read", "prune --all")
    with pytest.raises(OSError, match="prune --all"):
        read_contents(kept.cache)
    prune(kept.cache, PruneOrder(everything=True))
    assert names_of_blobs(kept.cache) == set()
    kept.store.add(kept.record, kept.made)
    assert kept.place()


def test_a_cache_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    store = Store(tmp_path / "file" / "cache", said.append)
    for key in (1, 2):
        store.add(result(tmp_path / "made", key), tmp_path / "made")
    assert len(said) == 1 and "the cache cannot be written" in said[0]


ADDING = """
import sys
from pathlib import Path
from tests.converter.batch.cached import result
from trtsmith.converter.batch.store import PruneOrder, Store, prune
home = Path(sys.argv[1])
store = Store(home / "cache", sys.exit)
for number in range(30):
    made = home / sys.argv[2] / str(number)
    record = result(made, number, {"model.plan": b"%d" % (number % 3)})
    store.add(record, made)
    found = store.find(record.key)
    if found is not None:
        store.place(found, home / sys.argv[2] / f"out{number}")
    if number % 7 == 0:
        prune(home / "cache", PruneOrder(larger_than=4000))
"""


def test_many_processes_use_one_cache(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", ADDING, str(tmp_path), name] for name in "abc"]
    running = [subprocess.Popen(command, env=checkout_environment()) for command in commands]
    assert [one.wait() for one in running] == [0, 0, 0]
    done = prune(tmp_path / "cache", PruneOrder(damaged=True))
    assert done.damaged == () and done.entries == 0 and left_behind(tmp_path / "cache") == []


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Five results, the fifth used last, of 4,000 bytes each, and a file of 3,000 that all of them have."""
    cache = tmp_path / "cache"
    for number in range(1, 6):
        files = {"model.plan": b"%d" % number * 4000, "lib.so": SHARED}
        record = result(tmp_path / str(number), number, files)
        Store(cache, pytest.fail).add(record, tmp_path / str(number))
        change(cache, "UPDATE entries SET used = ? WHERE key = ?", NOW - (6 - number) * HOUR, record.key)
    return cache


def found(cache: Path) -> list[int]:
    return [n for n in range(1, 6) if Store(cache, pytest.fail).find(key_of(n)) is not None]


def test_a_sound_cache_stays_as_it_is(cache: Path) -> None:
    done = prune(cache, PruneOrder(damaged=True), NOW)
    assert (done.entries, done.blobs, done.bytes, done.temporary, done.damaged) == (0, 0, 0, 0, ())
    assert done.kept_entries == 5 and done.kept_bytes == read_contents(cache).bytes > 23_000
    assert found(cache) == [1, 2, 3, 4, 5]


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
    sizes = {key: entry.bytes for key, entry in read_contents(cache).entries.items()}
    order = PruneOrder(larger_than=3000 + 2 * 4000 + sizes[key_of(4)] + sizes[key_of(5)])
    dry = prune(cache, replace(order, dry_run=True), NOW)
    assert found(cache) == [1, 2, 3, 4, 5]
    assert prune(cache, order, NOW) == dry and dry.kept_bytes == read_contents(cache).bytes
    assert found(cache) == [4, 5]


def test_a_use_is_what_counts(cache: Path, tmp_path: Path) -> None:
    store = Store(cache, pytest.fail)
    first = store.find(key_of(1))
    assert first is not None and store.place(first, tmp_path / "out")
    prune(cache, PruneOrder(larger_than=9000), NOW)
    assert found(cache) == [1]
    prune(cache, PruneOrder(everything=True), NOW)
    assert (tmp_path / "out" / "model.plan").read_bytes() == b"1" * 4000 and names_of_blobs(cache) == set()


def test_what_nobody_can_use_goes(cache: Path) -> None:
    change(cache, "DELETE FROM entries WHERE key = ?", key_of(1))
    blob_path(cache, facts_of(b"2" * 4000).sha256).unlink()
    change(cache, "UPDATE entries SET record = '{' WHERE key = ?", key_of(3))
    (cache / "entries/ab").mkdir(parents=True)  # of a version without an index
    done = prune(cache, PruneOrder(), NOW)
    assert (done.entries, done.blobs, len(done.damaged)) == (2, 2, 1) and found(cache) == [4, 5]
    assert not (cache / "entries").exists()


def test_temporary_files_go_once_nobody_can_be_at_them(cache: Path) -> None:
    temporary_path(cache).write_text("half")
    (cache / "tmp" / "notes.txt").write_text("not ours")
    now = os.stat(left_behind(cache)[0]).st_ctime
    assert prune(cache, PruneOrder(everything=True), now + LEFT_BEHIND_S - 60).temporary == 0
    assert prune(cache, PruneOrder(), now + LEFT_BEHIND_S + 60).temporary == 1
    assert left_behind(cache) == [] and (cache / "tmp" / "notes.txt").exists()


def test_links_out_of_the_cache_are_not_followed(cache: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    free = next(f"{n:02x}" for n in range(256) if not (cache / "objects" / f"{n:02x}").exists())
    victim = outside / (free * 32)
    victim.write_text("precious")
    (cache / "objects" / free).symlink_to(outside)
    (cache / "objects" / "notes").write_text("theirs")
    prune(cache, PruneOrder(everything=True), NOW)
    assert victim.read_text() == "precious" and (cache / "objects" / "notes").exists()


def test_what_cannot_be_removed_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("trtsmith.converter.batch.store.discard", refuses)
    done = prune(cache, PruneOrder(everything=True), NOW)
    assert len(done.failed) == 7 and done.blobs == 0 and "Operation not permitted" in done.failed[0]


def test_contents_hold_no_reports(cache: Path, tmp_path: Path) -> None:
    """A cache may have thousands of them, of some MiB each."""
    record: TaskRecord = replace(
        result(tmp_path / "6", 6), report={"nodes": ["n"]}, bench={"runs": []}, tune={"trials": []}
    )
    Store(cache, pytest.fail).add(record, tmp_path / "6")
    kept = read_contents(cache).entries[record.key].record
    assert (kept.report, kept.bench, kept.tune, kept.files) == (None, None, None, record.files)


def test_where_a_cache_lies() -> None:
    home = Path("/home/me")
    assert default_folder({"TRTSMITH_CACHE": "/c"}, home) == Path("/c")
    assert default_folder({}, home).name == "batch"
