"""Reads all that is in a cache: entries, blobs, and what of them is damaged."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trtsmith.converter.batch.cache.entries import DamagedEntry, ReadEntry, read_entry
from trtsmith.converter.batch.cache.layout import all_blobs, all_entries


@dataclass(frozen=True)
class Contents:
    """A cache at one moment.

    entries: that can be read, by key, without what was done and found: that has a few MiB for a large network.
    damaged: what is wrong with the others, by key.
    size:    bytes of every blob, by SHA-256; -1 of what is no file.
    """

    entries: Mapping[str, ReadEntry]
    damaged: Mapping[str, str]
    size: Mapping[str, int]

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.entries, *self.damaged)

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(self.size)

    @property
    def bytes(self) -> int:
        """Of all blobs and entries: what the cache takes of a disk, or of one that it shares with the results."""
        return sum(max(size, 0) for size in self.size.values()) + sum(e.bytes for e in self.entries.values())


def read_contents(cache: Path) -> Contents:
    """Entries first: what they name is then there, unless it was pruned.

    OSError for a folder or an entry that may not be read: nobody knows then which blobs are needed.
    """
    entries: dict[str, ReadEntry] = {}
    damaged: dict[str, str] = {}
    for key, _ in all_entries(cache):
        try:
            entry = read_entry(cache, key)
            entries[key] = replace(entry, record=replace(entry.record, report=None, bench=None))
        except FileNotFoundError:
            continue
        except DamagedEntry as error:
            damaged[key] = f"{key}: {error}"
    size = {}
    for digest, path in all_blobs(cache):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue
        size[digest] = found.st_size if stat.S_ISREG(found.st_mode) else -1
    return Contents(entries, damaged, size)
