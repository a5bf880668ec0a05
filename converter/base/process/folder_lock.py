"""Lets one process at a time replace files in a folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trtsmith.converter.base.process.scratch_folder import is_scratch_folder

WAIT_S = 60.0
"""Whoever may read a folder may lock it, and keep the lock."""

_STEP_S = 0.02


@contextmanager
def folder_lock(folder: Path, warn: Callable[[str], None], wait_s: float = WAIT_S) -> Iterator[None]:
    """Holds the lock on the folder itself, without a lock file.

    A lock that cannot be had is a warning, and the block runs without it: a result that is there must not be lost. A scratch
    folder has one owner, who holds its lock already.
    """
    if is_scratch_folder(folder):
        yield
        return
    descriptor = -1
    try:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            _lock(descriptor, time.monotonic() + wait_s)
        except OSError as error:
            warn(f"files in {folder} are replaced without a lock: {error.strerror or error}")
        yield
    finally:
        if descriptor >= 0:
            with suppress(OSError):
                fcntl.flock(
                    descriptor, fcntl.LOCK_UN
                )  # a child that was forked meanwhile has the descriptor, too
            os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError("another process keeps it") from None
            time.sleep(_STEP_S)
