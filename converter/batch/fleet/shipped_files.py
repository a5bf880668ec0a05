"""Puts the files of tasks into Ray's object store: each content once for a batch, in parts, if a machine lacks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.task import BatchTask

PART = 16 << 20
"""Bytes of a file in one object: a store may have as little as 80 MiB. It is all that the driver holds in its memory."""


@dataclass(frozen=True)
class FileContent:
    """A file of a task. path: absolute, on the driver's machine. sha256: in hexadecimal."""

    path: str
    sha256: str
    bytes: int


Parts = dict[str, list[Any]]
"""References to objects, by sha256: together the content, in order."""


class FileShelf:
    """The contents that machines have asked for, as long as there is a task that reads them.

    tasks: all that may ask.
    """

    def __init__(self, ray: Any, tasks: Sequence[BatchTask], hashes: FileHashes | None = None) -> None:
        self._ray = ray
        self._hashes = hashes or FileHashes()
        self._readers = Counter(str(path) for task in tasks for path in dict.fromkeys(task.files))
        self._paths: dict[str, set[str]] = {}  # by sha256
        self._parts: Parts = {}

    def contents(self, task: BatchTask) -> tuple[FileContent, ...]:
        """Of every file of the task. OSError for one that cannot be read."""
        self._hashes.read(task.files)
        found = [
            FileContent(str(path), self._hashes.of(path), path.stat().st_size)
            for path in dict.fromkeys(task.files)
        ]
        for file in found:
            self._paths.setdefault(file.sha256, set()).add(file.path)
        return tuple(found)

    def parts(self, files: Iterable[FileContent]) -> Parts:
        """What has been put of them already."""
        return {file.sha256: self._parts[file.sha256] for file in files if file.sha256 in self._parts}

    def put(self, files: Iterable[FileContent], sha256s: Iterable[str]) -> None:
        """Put those of the contents that are not there yet. OSError for a file that cannot be read."""
        wanted = set(sha256s)
        for file in files:
            if file.sha256 in wanted and file.sha256 not in self._parts:
                self._parts[file.sha256] = self._put(Path(file.path))

    def _put(self, path: Path) -> list[Any]:
        """It is read and not mapped: a file that shrinks while it is mapped ends the process."""
        references, buffer = [], np.empty(PART, np.uint8)
        with open(path, "rb", buffering=0) as file:
            while got := _read_full(file, buffer):
                references.append(self._ray.put(buffer[:got]))
        return references

    def done(self, task: BatchTask) -> None:
        """The task has ended: contents that no other one reads are dropped."""
        for path in map(str, dict.fromkeys(task.files)):
            self._readers[path] -= 1
        for sha256 in [
            sha for sha, paths in self._paths.items() if not any(self._readers[p] > 0 for p in paths)
        ]:
            del self._paths[sha256]
            self._parts.pop(sha256, None)


def _read_full(file: Any, buffer: np.ndarray) -> int:
    """Bytes read, fewer than the buffer has at the file's end only."""
    view, total = buffer.data, 0
    while total < len(view) and (got := file.readinto(view[total:])):
        total += got
    return total
