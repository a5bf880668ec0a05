"""trtsmith cache list and prune."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.converter.batch.cached import ENGINE, change, facts_of, key_of, result
from tests.converter.cli.commands.running import Cli, refused, snapshot
from trtsmith.converter.batch.store import Store, blob_path
from trtsmith.converter.batch.task import TaskStatus


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two conversions: one of two hours ago, and one that was refused just now."""
    cache = tmp_path / "cache"
    store = Store(cache, pytest.fail)
    store.add(result(tmp_path / "a", "a"), tmp_path / "a")
    store.add(result(tmp_path / "b", "b", {}, TaskStatus.REFUSED), tmp_path / "b")
    at = time.time() - 2.5 * 3600
    change(cache, "UPDATE entries SET used = ? WHERE key = ?", at, key_of("a"))
    return cache


def test_what_is_in_it(cache: Path, cli: Cli) -> None:
    ran = cli("cache list --cache", cache)
    lines = [line.split() for line in ran.out.splitlines()]
    assert ran.code == 0 and ran.err == ""
    assert lines[0] == ["key", "model", "variant", "status", "size", "used"]
    assert lines[1] == [key_of("b")[:12], "net", "precision=fp16", "refused", "0", "B", "just", "now"]
    assert lines[2] == f"{key_of('a')[:12]} net precision=fp16 agree {len(ENGINE)} B 2 hours ago".split()
    assert " ".join(lines[3]).startswith("2 conversions, ") and lines[3][-1] == str(cache)


def test_what_is_in_it_as_json(cache: Path, cli: Cli) -> None:
    ran = cli("cache list --json --cache", cache)
    document = json.loads(ran.out)
    assert (ran.code, document["schema"], document["cache"], document["damaged"]) == (0, 1, str(cache), [])
    other, agreed = document["entries"]
    assert (other["key"], other["files"], other["status"]) == (key_of("b"), {}, "refused")
    facts = facts_of(ENGINE)
    assert agreed["files"] == {"model.plan": {"sha256": facts.sha256, "bytes": facts.bytes}}
    assert (agreed["name"], agreed["model"], agreed["variant"]) == ("net/fp16", "net", {"precision": "fp16"})
    assert agreed["bytes"] == facts.bytes and agreed["used"].endswith("+00:00")
    assert document["bytes"] > facts.bytes


def test_names_of_others_cannot_act_on_a_terminal(cache: Path, cli: Cli) -> None:
    change(
        cache,
        "UPDATE entries SET record = json_set(record, '$.model', ?) WHERE key = ?",
        "a\nerror: b\x1b[2J<script>",
        key_of("a"),
    )
    ran = cli("cache list --cache", cache)
    assert "a\\nerror: b\\x1b[2J<script>" in ran.out and len(ran.out.splitlines()) == 4


def test_a_cache_that_nobody_has_used_yet_is_empty(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTSMITH_CACHE", str(tmp_path / "none"))
    for words in ("list", "prune --all"):
        ran = cli(f"cache {words}")
        assert ran.code == 0 and "0 conversions" in ran.out and ran.err == ""
    assert json.loads(cli("cache list --json").out)["entries"] == []
    assert not (tmp_path / "none").exists()


def test_the_folder_is_that_of_the_environment(
    cache: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRTSMITH_CACHE", str(cache))
    assert "2 conversions" in cli("cache list").out


@pytest.mark.parametrize(
    ("words", "stay"),
    [
        ("", 2),
        ("--older-than 1h", 1),
        ("--older-than 1", 2),
        ("--larger-than 1GiB", 2),
        ("--larger-than 0", 0),
        ("--all", 0),
        ("--damaged", 2),
    ],
)
def test_what_goes(cache: Path, cli: Cli, words: str, stay: int) -> None:
    before = snapshot(cache)
    dry = cli(f"cache prune --cache {cache} --dry-run {words}")
    assert dry.code == 0 and snapshot(cache) == before
    ran = cli(f"cache prune --cache {cache} {words}")
    assert ran.code == 0 and ran.err == ""
    assert ran.out == dry.out.replace("would be removed", "removed").replace("would stay", "stay")
    assert re.search(rf"^removed: {2 - stay} conversions?, ", ran.out) and re.search(
        rf"stay: {stay} conversions?, ", ran.out
    )
    assert f"{stay} conversion" in cli("cache list --cache", cache).out


def test_damaged_files_are_named(cache: Path, cli: Cli) -> None:
    path = blob_path(cache, facts_of(ENGINE).sha256)
    path.chmod(0o600)
    path.write_bytes(ENGINE[:-1] + b"x")
    change(cache, "UPDATE entries SET record = '{' WHERE key = ?", key_of("b"))
    listed = cli("cache list --cache", cache)
    assert listed.code == 0 and "warning: a damaged entry" in listed.err and key_of("b") in listed.err
    ran = cli("cache prune --damaged --cache", cache)
    assert ran.code == 0 and "removed: 2 conversions, 1 file, " in ran.out
    assert f"damaged: {path.name}" in ran.err and f"damaged: {key_of('b')}" in ran.err


def test_what_cannot_be_removed(cache: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr("trtsmith.converter.batch.store.discard", refuses)
    refused(
        cli("cache prune --all --cache", cache),
        1,
        "Operation not permitted; nor can 1 more",
        str(cache),
    )


def test_what_cannot_be_read(cache: Path, cli: Cli) -> None:
    (cache / "index.sqlite").write_bytes(b"no database" * 1000)
    for words in ("list", "prune"):
        refused(cli(f"cache {words} --cache {cache}"), 2, "not a database", "index.sqlite")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "ACTION"),
        ("clear", "clear"),
        ("prune --larger-than many", "'many' is not a size such as 10GiB"),
        ("prune --larger-than -5", "--larger-than"),
        ("prune --older-than 5y", "'5y' is not days"),
        ("prune --all --damaged", "not allowed with"),
        ("list --cache no_such_folder", "does not exist"),
        (f"prune --all --cache {__file__}", "is a file, not a folder"),
    ],
)
def test_words_that_mean_nothing(
    words: str,
    said: str,
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRTSMITH_CACHE", str(tmp_path / "none"))
    refused(cli(f"cache {words}"), 2, said)


def test_without_a_home_there_is_a_message(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRTSMITH_CACHE", raising=False)

    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    refused(cli("cache list"), 2, "home directory", "TRTSMITH_CACHE")
