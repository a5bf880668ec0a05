"""Keeps files by their SHA-256, read-only: put whole or not at all, and verified whenever one is taken out.

Nothing here holds a lock: files appear under their names by a rename, and a link keeps what it leads to, whoever removes the
name. So any number of processes and machines may put, take and remove at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path

from trtsmith.converter.batch.cache.file_copies import copy_content, is_of_a_model
from trtsmith.converter.batch.cache.file_hashes import hash_descriptor, open_regular
from trtsmith.converter.batch.cache.layout import blob_path, temporary_path
from trtsmith.converter.batch.task_record import FileFacts

_NO_LINK = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EACCES}
)
"""Other file systems, those without links, files with too many, and files of others (fs.protected_hardlinks of Linux)."""

_NO_FILE = frozenset({errno.ELOOP, errno.EINVAL, errno.ENXIO, errno.ENODEV})
"""What opening a link, pipe, socket, device or folder as a file ends with."""

_READ_ONLY = 0o444


class DamagedBlob(Exception):  # noqa: N818  what is found, and mended by doing the work again
    """It has not the bytes that its name says, or is no file. The text says what was found."""


class BlobMissing(Exception):  # noqa: N818  likewise
    """It is not there, or no longer."""


def has_blob(cache: Path, facts: FileFacts) -> bool:
    """Whether there is a file of that name and size. Its bytes are not looked at."""
    try:
        found = os.lstat(blob_path(cache, facts.sha256))
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == facts.bytes


def put_blob(cache: Path, source: Path, facts: FileFacts) -> None:
    """Put a file into the cache, where it is not there yet or damaged: by a link where there can be one, so that it becomes
    read-only. Models and their data are copied.

    OSError where that fails; DamagedBlob where the source is no file, or has not the bytes that are said of it.
    """
    if _is_sound(cache, facts):
        return
    target, temporary = blob_path(cache, facts.sha256), temporary_path(cache)
    try:
        _link_or_copy(source, temporary)
        descriptor = _opened(temporary)
        try:
            _check(descriptor, facts)
            os.fchmod(descriptor, _READ_ONLY)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir() and not target.is_symlink():
            discard(cache, target)
        os.replace(temporary, target)
    finally:  # also where both were links of one file: a rename leaves both then
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def take_blob(cache: Path, facts: FileFacts, target: Path) -> None:
    """Make `target`, which must not be there, a link of the blob, or a copy where there can be no link. Models and their
    data are copied.

    What is verified is what is left there. BlobMissing; DamagedBlob, and the blob is removed; OSError where the target
    cannot be written, or the blob not be read. In all three cases there is no target.
    """
    blob = blob_path(cache, facts.sha256)
    try:
        if is_of_a_model(target.name) or not _linked(blob, target):
            _take_copy(cache, blob, facts, target)
            return
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise
        raise BlobMissing from None
    found = os.lstat(target)
    try:
        descriptor = _opened(target)
        try:
            _check(descriptor, facts)
        finally:
            os.close(descriptor)
    except BaseException as error:
        os.unlink(target)
        if isinstance(error, DamagedBlob):
            _discard_same(cache, blob, found)
        raise


def discard(cache: Path, path: Path) -> None:
    """Remove what lies at a name of the cache, a folder too. OSError where that fails; it may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        if not path.is_dir() or path.is_symlink():
            raise
        away = temporary_path(cache)
        os.rename(path, away)
        shutil.rmtree(away)


def _take_copy(cache: Path, blob: Path, facts: FileFacts, target: Path) -> None:
    try:
        descriptor = _opened(blob)
    except DamagedBlob:
        discard(cache, blob)
        raise
    try:
        with os.fdopen(descriptor, "rb") as stream, open(target, "xb+") as out:
            try:
                copy_content(stream, out)
                out.seek(0)
                _check(out.fileno(), facts)
                os.fchmod(out.fileno(), _READ_ONLY)
            except BaseException as error:
                if isinstance(error, DamagedBlob):
                    _discard_same(cache, blob, os.fstat(stream.fileno()))
                raise
    except FileExistsError:
        raise
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        raise


def _link_or_copy(source: Path, target: Path) -> None:
    """Links are not followed: what is no regular file is found out by whoever opens the target."""
    try:
        if is_of_a_model(source.name) or not _linked(source, target):
            with os.fdopen(_opened(source), "rb") as stream, open(target, "xb") as out:
                copy_content(stream, out)
    except FileNotFoundError:
        if not os.path.lexists(source):
            raise DamagedBlob(f"{source.name} is not there") from None
        raise


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    return True


def _is_sound(cache: Path, facts: FileFacts) -> bool:
    """Whether the blob is there with its bytes: one that is damaged would cost the next who wants it a conversion."""
    if not has_blob(cache, facts):
        return False
    try:
        descriptor = _opened(blob_path(cache, facts.sha256))
        try:
            _check(descriptor, facts)
        finally:
            os.close(descriptor)
    except (DamagedBlob, FileNotFoundError):
        return False
    return True


def _opened(path: Path) -> int:
    try:
        return open_regular(path)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise DamagedBlob("it is no regular file") from None


def _check(descriptor: int, facts: FileFacts) -> None:
    size = os.fstat(descriptor).st_size
    if size != facts.bytes:
        raise DamagedBlob(f"it has {size} bytes, not {facts.bytes}")
    digest, size = hash_descriptor(descriptor)
    if (digest, size) != (facts.sha256, facts.bytes):
        raise DamagedBlob(f"its {size} bytes have the SHA-256 {digest}, not {facts.sha256}")


def _discard_same(cache: Path, blob: Path, found: os.stat_result) -> None:
    """Remove the damaged one, and not a sound one that another process has put in its place."""
    with contextlib.suppress(OSError):
        now = os.lstat(blob)
        if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
            discard(cache, blob)
