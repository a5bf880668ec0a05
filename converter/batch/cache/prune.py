"""Makes a cache smaller, and takes out of it what nobody needs, while others go on using it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from trtsmith.converter.batch.cache.blobs import discard
from trtsmith.converter.batch.cache.cache_contents import Contents, read_contents
from trtsmith.converter.batch.cache.entries import DamagedEntry, entry_state, read_entry
from trtsmith.converter.batch.cache.file_hashes import hash_descriptor, open_regular
from trtsmith.converter.batch.cache.layout import (
    all_entries,
    all_temporaries,
    blob_path,
    entry_path,
    temporary_path,
)

LEFT_BEHIND_S = 3600.0
"""Temporary files that nobody has touched for so long are of a process that is gone. Putting a file into a cache takes
seconds; clocks of machines that share a file system differ by less."""

_THREADS = 8


@dataclass(frozen=True)
class PruneOrder:
    """What goes, beside what nobody can use: entries that are damaged or lack files, files of no entry, and temporary files
    that were left behind.

    larger_than: so many bytes may stay; what was used last goes last.
    older_than_s: entries that were not used for so many seconds go.
    everything: all of it.
    damaged:    every file is read, and those that have not their bytes go, with the entries that need them.
    dry_run:    nothing goes: it is only told.
    """

    larger_than: int | None = None
    older_than_s: float | None = None
    everything: bool = False
    damaged: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Pruned:
    """What went, or would go. bytes: of blobs and entries that went; damaged: blobs and entries that were so."""

    entries: int
    blobs: int
    bytes: int
    temporary: int
    damaged: tuple[str, ...]
    kept_entries: int
    kept_bytes: int
    failed: tuple[str, ...] = field(default=())


def prune(cache: Path, order: PruneOrder, now: float | None = None) -> Pruned:
    """Do it. now: seconds since 1970.

    Nothing that another process has found can come out wrong by it: at worst a file that it wants is gone, which is a miss.
    OSError for a folder that cannot be read.
    """
    now = time.time() if now is None else now
    contents = read_contents(cache)
    damaged = _damaged_blobs(cache, contents) if order.damaged else {}
    kept = _kept(contents, order, damaged, now)
    going = [key for key in contents.keys if key not in kept]
    old = _left_behind(cache, now)
    failed: list[str] = []
    if not order.dry_run:
        going = _removed(cache, {key: entry_path(cache, key) for key in going}, failed)
        old = _removed(cache, {name: Path(name) for name in old}, failed)
    went = set(going)
    staying = [entry for key, entry in contents.entries.items() if key not in went]
    used = {facts.sha256 for entry in staying for facts in entry.record.files.values()}
    blobs = [digest for digest in contents.blobs if digest not in used]
    if not order.dry_run:
        blobs = _remove_blobs(cache, blobs, contents, damaged.keys(), failed)
    size = contents.size
    gone = [contents.entries[key] for key in going if key in contents.entries]
    return Pruned(
        entries=len(going),
        blobs=len(blobs),
        bytes=sum(max(size[digest], 0) for digest in blobs) + sum(entry.bytes for entry in gone),
        temporary=len(old),
        damaged=(*damaged.values(), *contents.damaged.values()),
        kept_entries=len(staying),
        kept_bytes=sum(size.get(digest, 0) for digest in used) + sum(entry.bytes for entry in staying),
        failed=tuple(failed),
    )


def _kept(contents: Contents, order: PruneOrder, damaged: Mapping[str, str], now: float) -> set[str]:
    """The keys of the entries that stay."""
    if order.everything:
        return set()
    kept: set[str] = set()
    used: set[str] = set()
    total = 0
    newest_first = sorted(contents.entries.items(), key=lambda item: (-item[1].used, item[0]))
    for key, entry in newest_first:
        files = entry.record.files.values()
        if any(contents.size.get(facts.sha256) != facts.bytes or facts.sha256 in damaged for facts in files):
            continue
        if order.older_than_s is not None and now - entry.used > order.older_than_s:
            continue
        new = {facts.sha256: facts.bytes for facts in files if facts.sha256 not in used}
        total += sum(new.values()) + entry.bytes
        if order.larger_than is not None and total > order.larger_than:
            break
        kept.add(key)
        used |= new.keys()
    return kept


def _damaged_blobs(cache: Path, contents: Contents) -> dict[str, str]:
    """What is wrong, by SHA-256, of all that have not the bytes that their name says."""

    def look(digest: str) -> str:
        try:
            descriptor = open_regular(blob_path(cache, digest))
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{digest}: {error.strerror}"
        try:
            found, size = hash_descriptor(descriptor)
        finally:
            os.close(descriptor)
        return "" if found == digest else f"{digest}: its {size} bytes have the SHA-256 {found}"

    with ThreadPoolExecutor(_THREADS) as pool:
        said = zip(contents.blobs, pool.map(look, contents.blobs), strict=True)
        return {digest: text for digest, text in said if text}


def _remove_blobs(
    cache: Path, digests: list[str], contents: Contents, damaged: Set[str], failed: list[str]
) -> list[str]:
    """Those that are gone. Each is first put aside: one that a new entry needs, which was written meanwhile, is put back.

    Whoever writes an entry looks for its blobs afterwards: either the entry is seen here, or the blob is missed there.
    """
    aside: dict[str, Path] = {}
    for digest in digests:
        try:
            away = temporary_path(cache)
            os.rename(blob_path(cache, digest), away)
            aside[digest] = away
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{blob_path(cache, digest)}: {error.strerror}")
    needed = _needed_by_new(cache, contents)
    for digest in aside.keys() & needed - damaged:
        blob = blob_path(cache, digest)
        with contextlib.suppress(OSError):
            if not os.path.lexists(blob):  # whoever needs it may have put it again
                os.replace(aside[digest], blob)
    gone = _removed(cache, aside, failed)
    return [digest for digest in gone if digest not in needed]


def _needed_by_new(cache: Path, contents: Contents) -> set[str]:
    """SHA-256 of the files of entries that were not there, or were others, when the contents were read."""
    needed: set[str] = set()
    for key, path in all_entries(cache):
        with contextlib.suppress(OSError, DamagedEntry):
            before = contents.entries.get(key)
            if before is None or before.state != entry_state(os.lstat(path)):
                needed |= {facts.sha256 for facts in read_entry(cache, key).record.files.values()}
    return needed


def _left_behind(cache: Path, now: float) -> list[str]:
    """By the time of the last change of the file's own data, not of its content: a link has the times of what it is of."""
    old = []
    for path in all_temporaries(cache):
        with contextlib.suppress(OSError):
            if now - os.lstat(path).st_ctime > LEFT_BEHIND_S:
                old.append(str(path))
    return old


def _removed(cache: Path, paths: Mapping[str, Path], failed: list[str]) -> list[str]:
    """The names of those that are gone; what is said of the others is added to `failed`."""
    gone = []
    for name, path in paths.items():
        try:
            discard(cache, path)
            gone.append(name)
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
    return gone
