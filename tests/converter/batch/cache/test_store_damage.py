"""Blobs and entries that are damaged or hostile are removed and told, and are never a result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.converter.batch.cache.damage import DAMAGE, Kept, flip, folder, gone_link, no_links, pipe
from tests.converter.batch.cache.results import (
    ENGINE,
    bytes_in,
    facts_of,
    key_of,
    left_behind,
    result,
)
from trtsmith.converter.batch.cache import blobs
from trtsmith.converter.batch.task_record import FileFacts


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


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_blob_gives_way_to_a_sound_one(
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
    with pytest.raises(ValueError, match="plain file name"):
        kept.store.place(record, kept.out)
    assert not kept.out.exists()
