"""Writes output files atomically, and refuses bad paths before any work is done."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.own_files import REPORT, OwnFile

FIX = "name another file, or add --force"
"""What a user does where a file would be lost."""


def check_report(
    path: Path | None,
    others: Iterable[object] = (),
    flag: str = "--report",
    what: str = "the report",
    own: OwnFile = REPORT,
    *,
    force: bool = False,
) -> None:
    """Raises UsageError if a report cannot be written there, or would replace one of the other paths.

    Found out before any work is done. flag: the option that named it. what: the file, if it is no report. own: what it may
    replace. force: it may replace any file.
    """
    if path is None:
        return
    where = f"{flag} {path}"
    try:
        if path.is_dir():
            raise UsageError(f"{what} is a folder", where, "a file name", f"{flag} {path / own.name}")
        if path.exists() and not path.is_file():  # a rename would put a file in the place of the device
            said = f"{what} would replace a device or pipe"
            raise UsageError(said, where, "a file, or nothing, of that name", "name another file")
        for other in others:
            if isinstance(other, Path) and same_file(path, other):
                said = f"{what} would replace {other}"
                raise UsageError(said, where, "a file of its own", "name another file")
        check_mount(path, where)
        if path.exists() and not (force or own.is_replaceable(path)):
            said = f"{what} would replace {path}, which is not {own.what}"
            raise UsageError(said, where, f"{own.what}, or nothing, of that name", FIX)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _no_report(path, error, flag, what) from error


def check_mount(path: Path, where: str) -> None:
    """Raises UsageError if the file itself is a mount point: no rename can replace it."""
    if is_mount_point(path):
        said = f"{path} is a mount point, which cannot be replaced"
        raise UsageError(said, where, "a file in a folder that is mounted", "mount its folder, not the file")


def is_mount_point(path: Path) -> bool:
    """Tells whether a file is a mount point. False if the system does not say: os.path.ismount knows folders."""

    def mount(name: Path, flags: int) -> str:
        descriptor = os.open(name, os.O_PATH | os.O_CLOEXEC | flags)
        try:
            facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
        finally:
            os.close(descriptor)
        return next(line for line in facts.splitlines() if line.startswith("mnt_id:"))

    with suppress(OSError, AttributeError, StopIteration):  # no Linux has no O_PATH
        return mount(path, os.O_NOFOLLOW) != mount(path.parent, 0)
    return False


def same_file(one: Path, other: Path) -> bool:
    """Tells whether two paths lead to one file, which need not exist yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _no_report(path: Path, error: OSError, flag: str, what: str = "the report") -> UsageError:
    said = f"{what} cannot be written: {error.strerror}"
    if not path.parent.exists():
        fix = f"mkdir -p {shlex.quote(str(path.parent))}"
        return UsageError(said, f"{flag} {path}", "a file in an existing folder", fix)
    return UsageError(said, f"{flag} {path}", "a writable file", "name another file")


def write_report(path: Path | None, document: Any, flag: str = "--report") -> None:
    """Writes the JSON file of --report, completely or not at all. Raises UsageError if it cannot be written."""
    if path is not None:
        write_text(path, json.dumps(document, indent=1) + "\n", flag)


def write_text(path: Path, text: str, flag: str, what: str = "the report") -> None:
    """Writes a text file, completely or not at all. Raises UsageError if it cannot. flag, what: as for `check_report`."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise _no_report(path, error, flag, what) from error


def write_whole(path: Path, text: str) -> None:
    """Writes bytes to a file, completely or not at all. Raises OSError if it cannot be written."""
    with replacing(path) as descriptor, open(descriptor, "w", encoding="utf-8", closefd=False) as stream:
        stream.write(text)


@contextmanager
def replacing(path: Path) -> Iterator[int]:
    """Opens a new file beside `path`, which replaces it at the end, or vanishes on an error. Yields its descriptor."""
    descriptor, unfinished = unfinished_file(path.parent)
    try:
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def unfinished_file(folder: Path) -> tuple[int, str]:
    """Makes a new file that is to replace another in the folder. Returns (a descriptor to write to, the path).

    The umask says who may read it, as of files that the user makes. OSError where it cannot be made.
    """
    path = unfinished_name(folder)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), path


def unfinished_folder(parent: Path) -> Path:
    """Makes a new folder that is to replace another."""
    path = unfinished_name(parent)
    os.mkdir(path)
    return Path(path)


def take_place(work: Path, folder: Path) -> None:
    """Makes `work` the folder of that name; what was there goes only when the new one can take its name."""
    if not folder.exists():
        os.rename(work, folder)
        return
    old = unfinished_folder(folder.parent)
    os.replace(folder, old / "old")
    try:
        os.rename(work, folder)
    except BaseException:  # a signal too
        os.replace(old / "old", folder)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def unfinished_name(folder: Path) -> str:
    """Makes a path for a file that is to replace another in the folder. It is short, however long the other's name is."""
    return str(folder / f".trtsmith-{secrets.token_hex(8)}")
