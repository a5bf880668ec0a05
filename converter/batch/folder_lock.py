"""Holds the folder of a batch, so that no second one writes there."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from pathlib import Path

from trtsmith.converter.model.errors import UsageError
from trtsmith.importers.problem import Problem

LOCK = ".lock"


class FolderLock:
    """A lock on FOLDER/.lock, until `release` or the end of this process. The file stays, and says who had it last.

    UsageError where another process has it. OSError where the file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = json.dumps({"pid": os.getpid(), "host": platform.node()}).encode()
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, data, 0)
        except BlockingIOError:
            who = _holder(os.pread(self._descriptor, 4096, 0))
            os.close(self._descriptor)
            raise UsageError(
                Problem(
                    f"another batch writes into this folder: {who}",
                    str(folder),
                    "one batch at a time for a folder",
                    "wait until that one has ended, or name another folder with -o",
                )
            ) from None
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        os.close(self._descriptor)


def _holder(data: bytes) -> str:
    """Who has written that, in words; it may be about to write it."""
    try:
        said = json.loads(data)
        return f"process {int(said['pid'])} on {str(said['host'])[:200]!r}"
    except (ValueError, LookupError, TypeError):
        return "a process that has just begun"
