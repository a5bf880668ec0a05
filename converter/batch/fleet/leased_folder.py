"""Folders that are gone when no process uses them any more, however the processes ended.

Each user holds a lock on a file in the folder. A process of its own waits until nobody does, and removes the folder: the
system gives a lock back also where its holder was killed. Before, it ends what still runs with TMPDIR in the folder, or with
a file in it open for writing: that was started by a user who is gone. Where that process is killed, too, or the machine
stops, the next folder of the same kind that is made in the same place removes what was left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_LOCK = "lock"

# Forks, so that it belongs to no process whose end could end it. TRIES: processes that are about to die may still write.
_SWEEPER = """
import fcntl, glob, os, shutil, signal, sys, time
TRIES = 20
if os.fork():
    os._exit(0)
folder, gone = sys.argv[1], f"{sys.argv[1]}.{os.getpid()}.gone"
try:
    lock = os.open(os.path.join(folder, "lock"), os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.stat(os.path.join(folder, "lock")).st_ino != os.fstat(lock).st_ino:
        os._exit(0)
    os.rename(folder, gone)
except OSError:
    os._exit(0)
inside = (os.fsencode(folder) + b"/", os.fsencode(gone) + b"/")

def is_of_it(process):
    with open(process + "/environ", "rb") as file:
        if b"\\0TMPDIR=" + inside[0] in b"\\0" + file.read():
            return True
    for link in glob.glob(os.fsencode(process) + b"/fd/*"):
        try:
            if os.lstat(link).st_mode & 0o200 and os.readlink(link).startswith(inside):
                return True
        except OSError:
            pass
    return False

for process in glob.glob("/proc/[0-9]*"):
    try:
        if int(process[6:]) != os.getpid() and is_of_it(process):
            os.kill(int(process[6:]), signal.SIGKILL)
    except OSError:
        pass
for _ in range(TRIES):
    shutil.rmtree(gone, ignore_errors=True)
    if not os.path.exists(gone):
        break
    time.sleep(0.2)
"""


class LeasedFolder:
    """A folder that any number of processes use under one name: made by the first, removed after the last.

    kind: what the names of such folders begin with. name: of this one, after the kind; unique.
    parent: where it lies; None: where temporary files are.
    """

    def __init__(self, kind: str, name: str, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        self.path = parent / f"{kind}{name}"
        made = self._take()
        if made:
            _start_sweeper(self.path)
            remove_left_folders(kind, parent)

    def _take(self) -> bool:
        """Hold the lock. Whether the folder was made for that."""
        while True:
            made = False
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
                made = True
            if self.path.stat().st_uid != os.getuid():
                raise PermissionError(1, "it belongs to somebody else", str(self.path))
            try:
                self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:  # it was removed meanwhile
                continue
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.stat(self.path / _LOCK).st_ino == os.fstat(self._lock).st_ino:
                    return made
            os.close(self._lock)

    def release(self) -> None:
        """It is not used here any more."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove(self) -> None:
        """Release it, and remove it now; for who knows that no other process uses it."""
        _remove(self.path)
        self.release()


def remove_left_folders(kind: str, parent: Path) -> None:
    """Remove folders of the kind that nobody uses: those that a machine which stopped has left."""
    for path in parent.glob(f"{kind}*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid != os.getuid() or not path.is_dir() or path.is_symlink():
                continue
            if path.name.endswith(".gone"):
                shutil.rmtree(path, ignore_errors=True)
                continue
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.stat(path / _LOCK).st_ino == os.fstat(lock).st_ino:
                    _remove(path)
            finally:
                os.close(lock)


def _remove(path: Path) -> None:
    gone = path.with_name(f"{path.name}.{os.getpid()}.gone")
    with contextlib.suppress(FileNotFoundError):
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _start_sweeper(path: Path) -> None:
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", _SWEEPER, str(path)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        check=False,
    )
