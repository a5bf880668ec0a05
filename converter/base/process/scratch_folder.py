"""Makes temporary folders; the next command removes those of killed processes.

The owner holds a lock on the folder, which the system gives back however the process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import weakref
from pathlib import Path
from types import TracebackType

_NAME = re.compile(r"trtsmith-[a-z]+-\w{8}\.scratch")
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ScratchFolder:
    """A new folder that only this user can read, for a `with` block or until `cleanup`.

    kind: its purpose in lower case, a part of its name. parent: None for the folder of temporary files.
    """

    def __init__(self, kind: str, parent: Path | None = None) -> None:
        made = Path(tempfile.mkdtemp(prefix=".trtsmith-new-", dir=parent))
        lock = os.open(made, _FLAGS)
        with contextlib.suppress(OSError):  # of a file system without locks: nobody removes it then but we
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path = made.with_name(f"trtsmith-{kind}-{made.name[-8:]}.scratch")
        os.rename(made, path)  # only now may another command find it, and it is locked
        self.name = str(path)
        self._finalizer = weakref.finalize(self, _remove, path, lock)

    def __enter__(self) -> str:
        return self.name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        """Removes the folder with its content; later calls do nothing."""
        self._finalizer()


def is_scratch_folder(folder: Path) -> bool:
    """Tells whether the folder is a scratch folder: private, and locked for as long as it exists."""
    return _NAME.fullmatch(folder.resolve().name) is not None


def remove_left_folders() -> None:
    """Removes this user's scratch folders whose process is gone from the folder for temporary files."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_left(Path(entry.path))


def _remove_left(path: Path) -> None:
    lock = os.open(path, _FLAGS)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
