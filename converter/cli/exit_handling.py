"""Handles abnormal ends of a command: signals, closed standard streams, and file errors."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from trtsmith.converter.base.errors import causes
from trtsmith.converter.base.process.foreign_code import handlers_in_force
from trtsmith.importers.problem import Problem

_LEAST_MEMORY = 256 << 20
"""Bytes of address space: `check` of a small model did with 250 MB."""

_NO_THREAD = "can't start new thread"

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_BAD_PATH = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EIO, errno.ESTALE}
)


@contextmanager
def signals_unwind() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise SystemExit with 128 + their number inside the block, as Ctrl-C raises
    KeyboardInterrupt.

    So children are ended and temporary files removed. A signal that is ignored stays so: nohup ignores SIGHUP, and a
    script's `&` SIGINT, for which Python then raises no KeyboardInterrupt; SIGTERM ends such a command. While C++ of
    others runs, they and Ctrl-C end the process at once (converter/base/process/foreign_code.py).
    """
    mine = []
    if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
        mine = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in mine:
        signal.signal(number, _unwind)
    try:
        with handlers_in_force({**dict.fromkeys(mine, _unwind), signal.SIGINT: signal.default_int_handler}):
            yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def raise_signal(error: Exception) -> None:
    """Raises the exception of a signal that an import turned into an ImportError, as C libraries do."""
    for cause in causes(error) if isinstance(error, ImportError) else ():
        if isinstance(cause, (KeyboardInterrupt, SystemExit)):
            raise cause from None


def _unwind(number: int, frame: FrameType | None) -> None:
    del frame
    for other in _SIGNALS:  # a second one must not end the clean-up
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(128 + number)


def hold_standard_streams() -> None:
    """Opens /dev/null for closed stdin, stdout and stderr.

    Else the next file that is opened gets the number of one, and what libraries print lands in it.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def memory_problem(error: BaseException | None = None) -> Problem | None:
    """Returns the problem for an error from lack of memory; None for others. Without an error: for a limit too low for any
    import.

    numpy's OpenBLAS waits for ever for memory that it does not get: in 150 MB it did.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    limited = limit != resource.RLIM_INFINITY
    if error is None and (not limited or limit >= _LEAST_MEMORY):
        return None
    if error is not None and not isinstance(error, MemoryError) and _NO_THREAD not in str(error):
        return None
    what = "there is too little memory for the command" if error is None else "the command ran out of memory"
    where = (
        f"address space limited to {limit >> 20:,} MiB (ulimit -v)" if limited else "this machine's memory"
    )
    fix = "raise the limit (ulimit -v), or give the command a machine or container with more memory"
    return Problem(what, where, "memory for the model and its conversion", fix)


def file_problem(error: OSError) -> Problem | None:
    """Returns the problem for an unexpected file error; None for other errors."""
    named = isinstance(error.filename, (str, bytes))
    if error.errno in _NO_ROOM:
        fix = "free some space, or name another folder; TMPDIR is the one for temporary files"
    elif error.errno in _NOT_ALLOWED:
        fix = "change its permissions, or name another path"
    elif error.errno in _BAD_PATH:
        fix = "correct the path" if named else "set TMPDIR to a folder that can be written"
    else:
        return None
    where = os.fsdecode(error.filename) if named else "a temporary file, or the command's standard output"
    return Problem(
        f"a file or folder cannot be used: {error.strerror}", where, "a path that can be read or written", fix
    )
