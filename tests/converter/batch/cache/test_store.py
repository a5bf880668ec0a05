"""The store: what was added is found and placed, and a hit is a use."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.converter.batch.cache.damage import Kept
from tests.converter.batch.cache.results import (
    ENGINE,
    bytes_in,
    facts_of,
    key_of,
    left_behind,
    names_of_blobs,
    result,
)
from tests.converter.model.builders import rich_model, save_external
from trtsmith.converter.batch.cache.layout import blob_path, default_folder
from trtsmith.converter.batch.cache.store import Store
from trtsmith.converter.batch.task_record import TaskRecord, TaskStatus
from trtsmith.converter.model.load import load_model
from trtsmith.importers.problem import Problem


def test_what_was_added_is_found_and_placed_by_links(kept: Kept) -> None:
    assert kept.store.find(kept.record.key) == kept.record
    assert kept.place()
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
    assert {path.name: path.stat().st_nlink for path in kept.out.iterdir()} == {
        **dict.fromkeys(files, 1),
        "model.plan": 3,  # here, in the cache, and where it was first made
    }
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in kept.out.iterdir())
    assert load_model(kept.out / "net.onnx")


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
        result(tmp_path / "b", "b", {}, TaskStatus.REFUSED),
        problems=(Problem("what\n", "where", "expected", "fix <script>"),),
        report={"converted": False, "errors": [1.5, float("inf")]},
        warnings=("w",),
        seconds={"total": 1.5},
        command=("trtsmith", "\udcff"),
    )
    kept.store.add(record, tmp_path / "b")
    assert kept.store.find(record.key) == record
    assert kept.store.place(record, kept.out) and bytes_in(kept.out) == {}


@pytest.mark.parametrize("status", TaskStatus)
def test_what_may_end_otherwise_next_time_is_not_kept(kept: Kept, tmp_path: Path, status: TaskStatus) -> None:
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

    assert default_folder({}, tmp_path) == sdk.SOURCES / ".cache" / "batch"  # a checkout keeps its own
    monkeypatch.setattr(sdk, "SOURCES", tmp_path)
    assert default_folder({}, tmp_path) == tmp_path / ".cache" / "trtsmith" / "batch"
    assert default_folder({"XDG_CACHE_HOME": "/x"}, tmp_path) == Path("/x/trtsmith/batch")
    assert default_folder({"XDG_CACHE_HOME": "/x", "TRTSMITH_CACHE": "/team/cache"}, tmp_path) == Path(
        "/team/cache"
    )
