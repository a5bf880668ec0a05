"""Hashes files by SHA-256: each once, several at a time, and none that is written to meanwhile."""

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
    """A descriptor to read a file that is no link, pipe, device or folder; it waits for nobody. OSError otherwise."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor


def hash_descriptor(descriptor: int) -> tuple[str, int]:
    """(SHA-256 in hexadecimal, bytes) of what can be read from here on."""
    digest, size, block = hashlib.sha256(), 0, memoryview(bytearray(_BLOCK))
    while got := os.readv(descriptor, [block]):
        digest.update(block[:got])
        size += got
    return digest.hexdigest(), size


class FileHashes:
    """The SHA-256 of files as they were when they were first asked for."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[str, tuple[int, ...]]] = {}

    def read(self, paths: Iterable[Path]) -> None:
        """Hash those that are not known yet, in threads. One that cannot be read stays unknown."""
        missing = [path for path in dict.fromkeys(paths) if path not in self._known]
        if len(missing) < 2:
            results = [_hashed(path) for path in missing]
        else:
            with ThreadPoolExecutor(min(_THREADS, len(missing))) as pool:
                results = list(pool.map(_hashed, missing))
        self._known |= {
            path: found for path, found in zip(missing, results, strict=True) if found is not None
        }

    def of(self, path: Path) -> str:
        """In hexadecimal. OSError for a file that cannot be read, or that changes all the time."""
        self.read([path])
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


def _hashed(path: Path) -> tuple[str, tuple[int, ...]] | None:
    try:
        for _ in range(_TRIES):
            descriptor = open_regular(Path(os.path.realpath(path)))
            try:
                before = _state(os.fstat(descriptor))
                digest, size = hash_descriptor(descriptor)
                if before == _state(os.fstat(descriptor)) and size == before[2]:
                    return digest, before
            finally:
                os.close(descriptor)
    except OSError:
        pass
    return None


def _state(found: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is written to, or another takes its place. Links to it may come and go."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
