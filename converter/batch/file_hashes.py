"""Hashes files by SHA-256 in parallel, each once, and detects files that change meanwhile."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_BLOCK = 1 << 20
_THREADS = 8
"""hashlib releases the interpreter's lock, and a network's file system answers several readers at once."""

_TRIES = 3


def open_regular(path: Path) -> int:
    """Open a regular file for reading, without blocking. OSError for a link, pipe, device or folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor


def hash_file(path: Path) -> tuple[str, os.stat_result]:
    """(SHA-256 in hexadecimal, facts of the file) of a regular file. OSError otherwise, and if it changes all the time."""
    for _ in range(_TRIES):
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            before, digest, block = os.fstat(file.fileno()), hashlib.sha256(), memoryview(bytearray(_BLOCK))
            while got := file.readinto(block):
                digest.update(block[:got])
            if _state(before) == _state(os.fstat(file.fileno())):
                return digest.hexdigest(), before
    raise OSError(errno.EIO, "it changes all the time", str(path))


class FileHashes:
    """The SHA-256 of files as they were when they were first asked for."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[str, tuple[int, ...]]] = {}
        self._digests: dict[
            tuple[int, ...], str
        ] = {}  # links to one file, as of a plugin library, are read once

    def read(self, paths: Iterable[Path]) -> None:
        """Hash those that are not known yet, in threads. One that cannot be read stays unknown."""
        missing = [path for path in dict.fromkeys(paths) if path not in self._known]
        with ThreadPoolExecutor(_THREADS) as pool:
            found = zip(missing, pool.map(self._hashed, missing), strict=True)
            self._known |= {path: one for path, one in found if one is not None}

    def of(self, path: Path) -> str:
        """In hexadecimal. OSError for a file that cannot be read, or that changes all the time."""
        self.read([path] if path not in self._known else ())
        if path not in self._known:
            raise OSError(errno.EIO, "it cannot be hashed", str(path))
        return self._known[path][0]

    def unchanged(self, paths: Iterable[Path]) -> bool:
        """Whether all of them are known, and are still as they were: the same file, size and times."""
        try:
            return all(
                path in self._known and _state(os.stat(path)) == self._known[path][1] for path in paths
            )
        except OSError:
            return False

    def _hashed(self, path: Path) -> tuple[str, tuple[int, ...]] | None:
        try:
            state = _state(os.stat(path))
            if state not in self._digests:
                digest, found = hash_file(Path(os.path.realpath(path)))
                state = _state(found)
                self._digests[state] = digest
        except OSError:
            return None
        return self._digests[state], state


def _state(found: os.stat_result) -> tuple[int, ...]:
    """Changes when a file is written to, or another takes its place. Links to it may come and go."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
