"""Caches conversions in a folder: files by their SHA-256, and an index of records by key in SQLite.

A cache never fails a batch: what is wrong with it is a warning, and the conversion is done. Files are read-only, put whole
or not at all, and verified whenever one is taken out.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.batch.file_hashes import hash_file
from trtsmith.converter.batch.task import RECORD, FileFacts, TaskRecord
from trtsmith.converter.compile.sdk import cache_folder
from trtsmith.importers.problem import Problem

VARIABLE = "TRTSMITH_CACHE"

OBJECTS, INDEX, TEMPORARY = "objects", "index.sqlite", "tmp"
_BEFORE = "entries"
"""Where versions before the index kept their records, which prune removes."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, used REAL NOT NULL, record TEXT NOT NULL) WITHOUT ROWID;
"""
_WAIT_S = 60.0
"""For others that write the index."""

LEFT_BEHIND_S = 3600.0
"""Temporary files that were untouched for this long belong to a process that is gone. Putting a file into a cache takes
seconds; clocks of machines that share a file system differ by less."""

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_COPIED = (".onnx", ".data")
"""Models and their weights, which are refused where they are a hard link."""

_NO_LINK = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EACCES}
)
"""Other file systems, those without links, files with too many, and files of others (fs.protected_hardlinks of Linux)."""

_SOUND = "an unchanged file of `trtsmith batch`"
_DONE_AGAIN = (
    "nothing: trtsmith converts the model again; `trtsmith cache prune --damaged` checks all other files"
)


def default_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Returns $TRTSMITH_CACHE; else `batch` in the folder where trtsmith keeps fetched files."""
    named = environment.get(VARIABLE, "")
    if named:
        return Path(os.path.abspath(named))
    return cache_folder(home, environment.get("XDG_CACHE_HOME", "")) / "batch"


def blob_path(cache: Path, sha256: str) -> Path:
    return cache / OBJECTS / sha256[:2] / sha256


class DamagedBlob(Exception):  # noqa: N818  what is found, and mended by doing the work again
    """A blob that is not a file, or whose content does not match the hash in its name."""


class Store:
    """The cache of one folder. Several processes may use it at once. The folder is made on the first write.

    warn: gets each warning in four parts, and those about the folder as a whole once.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder = folder
        self._warn = warn
        self._said: set[object] = set()

    def find(self, key: str) -> TaskRecord | None:
        """Returns the record of a key with its task's name at that time; None if it or a file of it is missing."""
        try:
            with _index(self.folder) as index:
                row = index.execute("SELECT record FROM entries WHERE key = ?", (key,)).fetchone()
        except FileNotFoundError:
            return None
        except (OSError, sqlite3.Error) as error:
            self._cannot("read", error)
            return None
        if row is None:
            return None
        try:
            return _checked(TaskRecord.from_json(row[0]), key)
        except ValueError as error:
            self._tell(
                f"an entry of the cache is not used: {error}", self.folder / INDEX, _SOUND, _DONE_AGAIN
            )
            return None

    def place(self, record: TaskRecord, folder: Path) -> bool:
        """Puts the verified files of a found record into a new folder; False: a miss, and there is no folder. They are
        read-only, and shared with the cache where the file system has links.

        OSError where the folder cannot be written.
        """
        folder.mkdir(parents=True)
        complete = False
        try:
            complete = all(self._take(facts, folder / name) for name, facts in record.files.items())
        finally:
            if not complete:
                shutil.rmtree(folder, ignore_errors=True)
        if complete:
            with contextlib.suppress(OSError, sqlite3.Error), _index(self.folder) as index:
                index.execute("UPDATE entries SET used = ? WHERE key = ?", (time.time(), record.key))
        return complete

    def add(self, record: TaskRecord, folder: Path) -> None:
        """Stores a record that has a key and a settled status, and its files, which lie in the folder and become
        read-only.
        """
        try:
            _checked(record, record.key)
            with _index(
                self.folder, make=True
            ) as index:  # prune waits: it cannot miss that the files are needed
                index.execute("BEGIN IMMEDIATE")
                for name, facts in record.files.items():
                    self._put(folder / name, facts)
                text = json.dumps(record.to_json())
                index.execute("REPLACE INTO entries VALUES (?, ?, ?)", (record.key, time.time(), text))
                index.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            self._cannot("written", error)
        except (DamagedBlob, ValueError) as error:
            what = f"{record.name}: the conversion cannot be cached: {error}"
            self._tell(
                what, folder, "files as the record has them", "leave the folder alone while it is used"
            )

    def _put(self, source: Path, facts: FileFacts) -> None:
        """Put the file into the cache, as a hard link if possible, and verify what is there then."""
        target = blob_path(self.folder, facts.sha256)
        with contextlib.suppress(DamagedBlob, FileNotFoundError):
            _check(target, facts)
            return
        temporary = temporary_path(self.folder)
        try:
            _link_or_copy(source, temporary)
            _check(temporary, facts)
            _make_read_only(temporary)
            target.parent.mkdir(parents=True, exist_ok=True)
            discard(target)
            os.replace(temporary, target)
        finally:  # also where both were links of one file: a rename leaves both then
            temporary.unlink(missing_ok=True)

    def _take(self, facts: FileFacts, target: Path) -> bool:
        """False: it is not there, or damaged, and then removed."""
        blob = blob_path(self.folder, facts.sha256)
        try:
            _link_or_copy(blob, target)
            _check(target, facts)
            _make_read_only(target)
        except FileNotFoundError:
            return False
        except DamagedBlob as error:
            what = f"a file of the cache ({target.name}) is damaged and was removed: {error}"
            self._tell(what, blob, _SOUND, _DONE_AGAIN)
            with contextlib.suppress(OSError):
                discard(blob)
            return False
        except PermissionError as error:
            if not os.access(target.parent, os.W_OK | os.X_OK):
                raise
            self._cannot("read", error)
            return False
        return True

    def _cannot(self, verb: str, error: OSError | sqlite3.Error) -> None:
        code = error.errno if isinstance(error, OSError) else 0
        if (verb, code) in self._said:
            return
        self._said.add((verb, code))
        fix = (
            "free space with `trtsmith cache prune --larger-than SIZE`"
            if code in (errno.ENOSPC, errno.EDQUOT) or "full" in str(error)
            else "change its permissions; for a damaged index, `trtsmith cache prune --all` makes a new one"
        )
        said = (error.strerror if isinstance(error, OSError) else None) or error
        self._tell(
            f"the cache cannot be {verb}: {said}; later runs cannot reuse these results",
            self.folder,
            "a folder that can be read and written",
            f"{fix}; or name another folder with --cache",
        )

    def _tell(self, what: str, where: Path, expected: str, fix: str) -> None:
        self._warn(str(Problem(what, str(where), expected, fix)))


@contextlib.contextmanager
def _index(cache: Path, *, make: bool = False) -> Iterator[sqlite3.Connection]:
    """FileNotFoundError where there is none and none is to be made; sqlite3.Error."""
    if make:
        cache.mkdir(parents=True, exist_ok=True)
    elif not (cache / INDEX).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(cache / INDEX))
    with contextlib.closing(sqlite3.connect(cache / INDEX, _WAIT_S, isolation_level=None)) as index:
        if make:
            index.executescript(_SCHEMA)
        yield index


def _checked(record: TaskRecord, key: str) -> TaskRecord:
    """ValueError for a record that no cache may hold: it names files that lie beside it, and no others."""
    if record.key != key or not _DIGEST.fullmatch(key):
        raise ValueError(f"its key is {record.key!r:.80}")
    if not record.status.settled:
        raise ValueError(f"its status is {record.status.value!r}, which says nothing of the next time")
    for name, facts in record.files.items():
        plain = name not in ("", ".", "..", RECORD) and not any(c in name for c in "/\\\0")
        if not plain or not name.isprintable() or len(name) > 255:
            raise ValueError(f"{name!r:.80} is no plain file name")
        if not _DIGEST.fullmatch(facts.sha256):
            raise ValueError(f"{facts.sha256!r:.80} is no SHA-256")
    return record


def _check(path: Path, facts: FileFacts) -> None:
    """DamagedBlob, or the OSError that prevents the check."""
    try:
        digest, found = hash_file(path)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.ENODEV, errno.EISDIR):
            raise
        raise DamagedBlob("it is no regular file") from None
    if (digest, found.st_size) != (facts.sha256, facts.bytes):
        raise DamagedBlob(f"its {found.st_size} bytes have the SHA-256 {digest}, not {facts.sha256}")


def _link_or_copy(source: Path, target: Path) -> None:
    """Links are not followed: `_check` finds out what is no regular file. Models are copied."""
    if target.suffix not in _COPIED and source.suffix not in _COPIED:
        try:
            os.link(source, target, follow_symlinks=False)
            return
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
    shutil.copyfile(source, target, follow_symlinks=False)


def _make_read_only(path: Path) -> None:
    """Who may read it is the umask's business."""
    mode = path.stat().st_mode & 0o777
    if mode & 0o333:
        path.chmod(mode & 0o444)


def temporary_path(cache: Path) -> Path:
    folder = cache / TEMPORARY
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"trtsmith-{secrets.token_hex(8)}"


def discard(path: Path) -> None:
    """Removes a file or folder of the cache, if it exists. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class CacheEntry:
    """An entry: its record without reports, the bytes of its record, when it was last used (seconds since 1970)."""

    record: TaskRecord
    bytes: int
    used: float


@dataclass(frozen=True)
class Contents:
    """The content of a cache at one moment.

    entries: that can be read, by key, what was used last first.
    damaged: what is wrong with the others, by key.
    size:    bytes of every blob, by SHA-256; -1 where it is no file.
    """

    entries: Mapping[str, CacheEntry]
    damaged: Mapping[str, str]
    size: Mapping[str, int]

    @property
    def bytes(self) -> int:
        """The bytes of all blobs and entries on disk."""
        return sum(max(size, 0) for size in self.size.values()) + sum(e.bytes for e in self.entries.values())


def read_contents(cache: Path) -> Contents:
    """Reads the cache. Raises OSError for an unreadable folder or index, since the needed blobs are unknown then."""
    if not (cache / INDEX).exists():
        return Contents({}, {}, _blobs(cache))
    try:
        with _index(cache) as index:
            return _contents(cache, index)
    except sqlite3.Error as error:
        raise OSError(
            errno.EIO, f"{error}; `trtsmith cache prune --all` makes a new index", str(cache / INDEX)
        ) from error


def _contents(cache: Path, index: sqlite3.Connection) -> Contents:
    entries, damaged = {}, {}
    for key, used, text in index.execute("SELECT key, used, record FROM entries ORDER BY used DESC, key"):
        try:
            record = _checked(TaskRecord.from_json(text), key)
            slim = TaskRecord(**{**vars(record), "report": None, "bench": None, "tune": None})
            entries[key] = CacheEntry(slim, len(text), used)
        except ValueError as error:
            damaged[key] = f"{key}: {error}"
    return Contents(entries, damaged, _blobs(cache))


def _blobs(cache: Path) -> dict[str, int]:
    found = {}
    for path in sorted((cache / OBJECTS).glob("??/*")):
        if (
            _DIGEST.fullmatch(path.name)
            and path.parent.name == path.name[:2]
            and not path.parent.is_symlink()
        ):
            regular = path.is_file() and not path.is_symlink()
            found[path.name] = path.stat().st_size if regular else -1
    return found


@dataclass(frozen=True)
class PruneOrder:
    """The entries to remove besides damaged or incomplete ones, unreferenced files and left temporary files.

    larger_than: this many bytes may stay; the most recently used go last.
    older_than_s: entries unused for this many seconds go.
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
    """The entries that `cache prune` removed, or would remove. bytes: of removed blobs and entries; damaged: number of
    damaged ones.
    """

    entries: int
    blobs: int
    bytes: int
    temporary: int
    damaged: tuple[str, ...]
    kept_entries: int
    kept_bytes: int
    failed: tuple[str, ...] = ()


def prune(cache: Path, order: PruneOrder, now: float | None = None) -> Pruned:
    """Prunes the cache. now: seconds since 1970.

    Nobody adds an entry meanwhile; who takes a file out finds it whole, or a miss. OSError for a folder that cannot be read.
    """
    now = time.time() if now is None else now
    if order.everything and not order.dry_run and _is_damaged(cache):
        discard(cache / INDEX)
    if not (cache / INDEX).exists():
        return _pruned(cache, order, now, read_contents(cache), None)
    try:
        with _index(cache) as index:
            index.execute("BEGIN" if order.dry_run else "BEGIN IMMEDIATE")
            done = _pruned(cache, order, now, _contents(cache, index), None if order.dry_run else index)
            index.execute("COMMIT")
            return done
    except sqlite3.Error as error:
        raise OSError(errno.EIO, str(error), str(cache / INDEX)) from error


def _is_damaged(cache: Path) -> bool:
    """Whether the index is no database of ours."""
    try:
        with _index(cache) as index:
            index.execute("SELECT key, used, record FROM entries LIMIT 1").fetchone()
    except FileNotFoundError:
        return False
    except sqlite3.DatabaseError as error:
        return not isinstance(error, sqlite3.OperationalError) or "no such" in str(error)
    return False


def _pruned(
    cache: Path, order: PruneOrder, now: float, contents: Contents, index: sqlite3.Connection | None
) -> Pruned:
    damaged = _damaged_blobs(cache, contents.size) if order.damaged else {}
    kept = _kept(contents, order, damaged, now)
    going = [key for key in (*contents.entries, *contents.damaged) if key not in kept]
    used = {facts.sha256 for key in kept for facts in contents.entries[key].record.files.values()}
    paths = {digest: blob_path(cache, digest) for digest in contents.size if digest not in used}
    old = {str(path): path for path in _left_behind(cache, now)}
    failed: list[str] = []
    if not order.dry_run:
        if index is not None:
            index.executemany("DELETE FROM entries WHERE key = ?", ((key,) for key in going))
        paths, old = _removed(paths, failed), _removed(old, failed)
        _removed({_BEFORE: cache / _BEFORE}, failed)
    gone = [contents.entries[key].bytes for key in going if key in contents.entries]
    return Pruned(
        entries=len(going),
        blobs=len(paths),
        bytes=sum(max(contents.size[digest], 0) for digest in paths) + sum(gone),
        temporary=len(old),
        damaged=(*damaged.values(), *contents.damaged.values()),
        kept_entries=len(kept),
        kept_bytes=sum(contents.size.get(digest, 0) for digest in used)
        + sum(contents.entries[key].bytes for key in kept),
        failed=tuple(failed),
    )


def _kept(contents: Contents, order: PruneOrder, damaged: Mapping[str, str], now: float) -> set[str]:
    """The keys of the entries that stay."""
    kept: set[str] = set()
    used: set[str] = set()
    total = 0
    for key, entry in contents.entries.items() if not order.everything else ():
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


def _damaged_blobs(cache: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """What is wrong, by SHA-256, with all that have not the bytes that their name says."""

    def look(digest: str) -> str:
        try:
            _check(blob_path(cache, digest), FileFacts(digest, sizes[digest]))
        except (OSError, DamagedBlob) as error:
            return f"{digest}: {error}"
        return ""

    with ThreadPoolExecutor(8) as pool:
        return {digest: text for digest, text in zip(sizes, pool.map(look, sizes), strict=True) if text}


def _left_behind(cache: Path, now: float) -> Iterable[Path]:
    """By the time of the last change of the file's own data, not of its content: a link has the times of what it is of."""
    for path in sorted((cache / TEMPORARY).glob("trtsmith-*")):
        with contextlib.suppress(OSError):
            if now - os.lstat(path).st_ctime > LEFT_BEHIND_S:
                yield path


def _removed(paths: Mapping[str, Path], failed: list[str]) -> dict[str, Path]:
    """The files that were removed; messages about the others are added to `failed`."""
    gone = {}
    for name, path in paths.items():
        try:
            discard(path)
            gone[name] = path
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
    return gone
