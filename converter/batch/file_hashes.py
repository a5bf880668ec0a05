"""Hashes each file once by SHA-256, in parallel, and detects files that change meanwhile."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_BLOCK = 1 << 20
_THREADS = 8
"""hashlib releases the interpreter's lock, and a network's file system answers several readers at once."""

_TRIES = 3

FileState = tuple[int, ...]
"""Changes when a file is written to, or another takes its place."""


def open_regular(path: Path) -> int:
    """Opens a regular file without blocking. Raises OSError for links, pipes, devices and folders."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return descriptor


def hash_file(path: Path) -> tuple[str, os.stat_result]:
    """Hashes a regular file. Returns (SHA-256 in hexadecimal, its facts). Raises OSError for others, and if it keeps
    changing.
    """
    for _ in range(_TRIES):
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            before, digest, block = os.fstat(file.fileno()), hashlib.sha256(), memoryview(bytearray(_BLOCK))
            while got := file.readinto(block):
                digest.update(block[:got])
            if _state(before) == _state(os.fstat(file.fileno())):
                return digest.hexdigest(), before
    raise OSError(errno.EIO, "it changes all the time", str(path))


class FileHashes:
    """SHA-256 of files, as they were at the first request."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[str, FileState]] = {}
        self._digests: dict[FileState, str] = {}  # links to one file, as of a plugin library, are read once

    def read(self, paths: Iterable[Path]) -> None:
        """Hashes files not yet known, in threads. Unreadable ones stay unknown."""
        missing = [path for path in dict.fromkeys(paths) if path not in self._known]
        if not missing:
            return
        large = [path for path in missing if _bytes(path) > _BLOCK]  # a thread takes longer than a small file
        with ThreadPoolExecutor(_THREADS) as pool:
            found = dict(zip(large, pool.map(self._hashed, large), strict=True))
        found |= {path: self._hashed(path) for path in missing if path not in found}
        self._known |= {path: one for path, one in found.items() if one is not None}

    def of(self, path: Path) -> str:
        """Returns the hash in hexadecimal. Raises OSError for files that are unreadable or keep changing."""
        self.read([path] if path not in self._known else ())
        if path not in self._known:
            raise OSError(errno.EIO, "it cannot be hashed", str(path))
        return self._known[path][0]

    def unchanged(self, paths: Iterable[Path]) -> bool:
        """Tells whether all files are known and unchanged: the same inode, size and times."""
        asked = [*paths]
        return all(path in self._known for path in asked) and not changed(
            {path: self._known[path][1] for path in asked}
        )

    def states(self) -> dict[Path, FileState]:
        """Returns the states of the known files when they were hashed."""
        return {path: state for path, (_, state) in self._known.items()}

    def _hashed(self, path: Path) -> tuple[str, FileState] | None:
        try:
            state = _state(os.stat(path))
            if state not in self._digests:
                digest, found = hash_file(Path(os.path.realpath(path)))
                state = _state(found)
                self._digests[state] = digest
        except OSError:
            return None
        return self._digests[state], state


def changed(states: Mapping[Path, FileState]) -> list[Path]:
    """Returns the files that have changed."""
    found = []
    for path, state in states.items():
        try:
            if _state(os.stat(path)) != state:
                found.append(path)
        except OSError:
            found.append(path)
    return found


def _bytes(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _state(found: os.stat_result) -> FileState:
    """Links to the file may come and go."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
