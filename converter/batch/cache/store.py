"""A cache of conversions in a folder: finds what was done before, gives its files, and keeps what is done now.

A cache never fails a batch: what is wrong with it is a warning, and the conversion is done.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

from trtsmith.converter.batch.cache.blobs import BlobMissing, DamagedBlob, has_blob, put_blob, take_blob
from trtsmith.converter.batch.cache.entries import DamagedEntry, check_keepable, read_entry, write_entry
from trtsmith.converter.batch.cache.layout import blob_path, entry_path, is_digest
from trtsmith.converter.batch.task_record import TaskRecord
from trtsmith.importers.problem import Problem

_TRIES = 3
"""A blob may be pruned just before the entry that names it is there: it is then put again."""

_SOUND = "a file as `trtsmith batch` wrote it"
_DONE_AGAIN = "nothing: the conversion is done again; `trtsmith cache prune --damaged` looks at all others"


class Store:
    """Any number of processes and machines may use one folder at once. It is made when something is added.

    warn: gets each warning in four parts, and those about the folder as a whole once.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder = folder
        self._warn = warn
        self._said: set[object] = set()

    def find(self, key: str) -> TaskRecord | None:
        """The record of that key, with the name that its task had then; None without one whose files are there."""
        if not is_digest(key):
            return None
        path = entry_path(self.folder, key)
        try:
            record = read_entry(self.folder, key).record
        except FileNotFoundError:
            return None
        except OSError as error:
            self._cannot("read", error, path)
            return None
        except DamagedEntry as error:
            self._tell(f"an entry of the cache is not used: {error}", path, _SOUND, _DONE_AGAIN)
            self._drop(path)
            return None
        return record if all(has_blob(self.folder, facts) for facts in record.files.values()) else None

    def place(self, record: TaskRecord, folder: Path) -> bool:
        """Put the files of a record of `find` into a folder, which is made if it is not there, each verified; False: a miss,
        and none of them is there. They are read-only, and shared with the cache where the file system has links.

        OSError where the folder cannot be written. ValueError or TypeError for a record that no cache may hold.
        """
        check_keepable(record)
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        placed: list[Path] = []
        complete = False
        try:
            for name in record.files:
                target = folder / name
                if not self._take(record, name, target):
                    break
                placed.append(target)
            else:
                complete = True
        finally:
            if not complete:
                for path in placed:
                    path.unlink(missing_ok=True)
                if made:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
        if complete:
            with contextlib.suppress(OSError):  # another's, or a file system that is read-only
                os.utime(entry_path(self.folder, record.key))
        return complete

    def add(self, record: TaskRecord, folder: Path) -> None:
        """Keep a record that has a key and a settled status, and its files, which lie in the folder and become read-only."""
        if not record.key or not record.status.settled:
            return
        try:
            check_keepable(record)
            for _ in range(_TRIES):
                for name, facts in record.files.items():
                    put_blob(self.folder, folder / name, facts)
                write_entry(self.folder, record)
                if all(has_blob(self.folder, facts) for facts in record.files.values()):
                    return
        except OSError as error:
            self._cannot("written", error, self.folder)
        except (DamagedBlob, ValueError, TypeError) as error:
            what = f"{record.name}: the conversion is not put into the cache: {error}"
            self._tell(
                what, folder, "files as the record has them", "leave the folder alone while it is used"
            )

    def _take(self, record: TaskRecord, name: str, target: Path) -> bool:
        facts = record.files[name]
        path = blob_path(self.folder, facts.sha256)
        try:
            take_blob(self.folder, facts, target)
        except BlobMissing:
            return False
        except DamagedBlob as error:
            what = f"a file of the cache ({name}) is damaged and was removed: {error}"
            self._tell(what, path, _SOUND, _DONE_AGAIN)
            return False
        except PermissionError as error:
            if os.access(target.parent, os.W_OK | os.X_OK):
                self._cannot("read", error, path)
                return False
            raise
        return True

    def _drop(self, path: Path) -> None:
        """Remove an entry that is damaged; where that is not allowed it is found damaged again."""
        with contextlib.suppress(OSError):
            os.unlink(path)

    def _cannot(self, verb: str, error: OSError, path: Path) -> None:
        if (verb, error.errno) in self._said:
            return
        self._said.add((verb, error.errno))
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = (
            "free space with `trtsmith cache prune --larger-than SIZE`"
            if full
            else "give yourself the permission"
        )
        self._tell(
            f"the cache cannot be {verb}: {error.strerror or error}; what is done now is not found next time",
            path,
            "a folder that can be read and written",
            f"{fix}, or name another folder with --cache",
        )

    def _tell(self, what: str, where: Path, expected: str, fix: str) -> None:
        self._warn(str(Problem(what, str(where), expected, fix)))
