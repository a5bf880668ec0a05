"""A cache with one result in it, and what can become of a file of it."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from tests.converter.batch.cache.results import ENGINE, facts_of, result
from trtsmith.converter.batch.cache.layout import blob_path, entry_path
from trtsmith.converter.batch.cache.store import Store


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


def no_links(monkeypatch: pytest.MonkeyPatch, number: int = errno.EXDEV) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuses)
