"""Writes a folder of files atomically, and overwrites nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.output_file import unfinished_folder


def check_free(folder: Path) -> None:
    """Raises UsageError unless the folder is empty or missing, and can be made."""
    where = f"-o {folder}"
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(
                "the folder is not empty",
                where,
                "an empty folder, or a new one",
                "name another folder, or remove this one first",
            )
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise UsageError("a file of that name exists", where, "a new folder", "name another folder")
        with tempfile.TemporaryDirectory(prefix=".trtsmith-", dir=folder.absolute().parent):
            pass
    except OSError as error:
        raise _not_written(folder, error) from error


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes all files by their relative paths, or none. Raises UsageError."""
    check_free(folder)
    target = folder.absolute()
    work: Path | None = None
    try:
        work = unfinished_folder(target.parent)
        for name, content in files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        work.replace(target)  # over an empty folder, too
    except OSError as error:
        raise _not_written(folder, error) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _not_written(folder: Path, error: OSError) -> UsageError:
    said = f"the package cannot be written: {error.strerror}"
    return UsageError(said, f"-o {folder}", "a folder that can be written", "name another folder")
