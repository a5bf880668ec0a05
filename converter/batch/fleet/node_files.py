"""Keeps the files that a batch has sent to this machine: each content once, and for a task in the folders that it had."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.cache.canonical_words import below, renamed_paths
from trtsmith.converter.batch.cache.file_copies import copy_content
from trtsmith.converter.batch.cache.file_hashes import FileHashes
from trtsmith.converter.batch.fleet.shipped_files import FileContent, Parts
from trtsmith.converter.batch.task import BatchTask


class NodeFiles:
    """The files of one batch in a folder that all of its processes on this machine share."""

    def __init__(self, folder: Path) -> None:
        self._contents = folder / "contents"
        self._views = folder / "views"
        for path in (self._contents, self._views):
            path.mkdir(exist_ok=True)
        self._hashes = FileHashes()

    def are_here(self, files: Sequence[FileContent]) -> bool:
        """Whether this machine has them all anyway, under the same paths: it has the driver's file system."""
        return all(self._is_here(file) for file in files)

    def _is_here(self, file: FileContent) -> bool:
        path = Path(file.path)
        try:
            if path.stat().st_size != file.bytes or self._hashes.of(path) != file.sha256:
                return False
        except OSError:
            return False
        return self._hashes.unchanged([path])

    def lacking(self, files: Sequence[FileContent], parts: Parts) -> tuple[str, ...]:
        """Contents that have neither come before nor are among the parts."""
        return tuple(
            sha256
            for sha256 in dict.fromkeys(file.sha256 for file in files)
            if sha256 not in parts and not (self._contents / sha256).exists()
        )

    def take(self, ray: Any, files: Sequence[FileContent], parts: Parts) -> None:
        """Write those that have not come before. OSError also for a content that is not what its hash says."""
        for file in files:
            target = self._contents / file.sha256
            with _locked(self._contents / f"{file.sha256}.lock"):
                if not target.exists():
                    _write(ray, file, parts[file.sha256], target)

    def view(self, files: Sequence[FileContent]) -> Path:
        """A folder in which they lie as they do below the driver's root. Who asked for it removes it."""
        view = Path(tempfile.mkdtemp(prefix="files-", dir=self._views))
        try:
            for file in files:
                path = moved(view, file.path)
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(self._contents / file.sha256, "rb") as source, open(path, "xb") as target:
                    copy_content(source, target)
                    os.fchmod(target.fileno(), 0o400)
        except BaseException:
            shutil.rmtree(view, ignore_errors=True)
            raise
        return view


def moved(view: Path, path: str) -> Path:
    """Where an absolute path lies in a view: never outside of it."""
    return view / os.path.normpath(path).lstrip(os.sep)


def task_in_view(task: BatchTask, view: Path) -> BatchTask:
    """The task with the paths of its files, and of folders that hold some, as they are in the view."""
    known = {os.path.normpath(path) for path in task.files}

    def renamed(text: str) -> str | None:
        path = os.path.normpath(text)
        mine = path in known or below(Path(path), task.files)
        return str(moved(view, text)) if mine else None

    return replace(
        task,
        source=renamed_paths([task.source], renamed)[0],
        words=tuple(renamed_paths(task.words, renamed)),
        bench=None if task.bench is None else tuple(renamed_paths(task.bench, renamed)),
        files=tuple(moved(view, str(path)) for path in task.files),
    )


def _write(ray: Any, file: FileContent, parts: Sequence[Any], target: Path) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=target.parent)
    try:
        digest = hashlib.sha256()
        with open(descriptor, "wb") as out:
            for part in parts:
                data = memoryview(ray.get(part))
                digest.update(data)
                out.write(data)
                del data  # else the store could not let it go
        if digest.hexdigest() != file.sha256:
            raise OSError(errno.EIO, "the file was changed while it was sent", file.path)
        os.chmod(temporary, 0o400)
        os.rename(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Any:
    """So that one process writes a content, and the others wait for it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
