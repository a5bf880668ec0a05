"""Imports a user's module with a time limit, its output on stderr, and its errors as messages.

The module runs in this process and can do what any code of the user's can. In a command, what is kept from it is stdout,
which is for results, and the power to end or to stop the command without a word.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

from trtsmith.converter.base.errors import EXIT_USAGE, UsageError
from trtsmith.converter.base.process.package_folders import PACKAGE_FOLDERS
from trtsmith.converter.operators.own_process import is_own_process
from trtsmith.converter.operators.sources import OperatorSource

LIMIT_S = 60.0
"""PyTorch, which definitions may import, takes 2 s from memory and up to 20 s from a slow disk."""

LIMIT_VARIABLE = "TRTSMITH_OPS_TIMEOUT"

_AGAIN_S = 0.05
"""How soon an interruption that was swallowed is repeated."""

_STUBBORN_S = 3.0
"""For how long a command tries that. Of its main thread nothing is left to save then: it would not hear Ctrl-C either."""

_EXPECTED = "a module that can be imported, and that has OPERATORS, a tuple of OpDef"


_Act = Callable[[], object]


class _TookTooLong(BaseException):
    """Raised inside the import; no Exception, which it may catch."""


def import_limit() -> float:
    """Returns the seconds that an import may take: TRTSMITH_OPS_TIMEOUT, or LIMIT_S."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        limit = float(text) if text else LIMIT_S
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        what = f"{LIMIT_VARIABLE} is {text!r}"
        raise UsageError(what, "the environment", "a positive number of seconds", f"unset {LIMIT_VARIABLE}")
    return limit


def import_watched(load: Callable[[], ModuleType], source: OperatorSource) -> ModuleType:
    """Runs `load`. Raises UsageError with the line of the user's file that raised or took too long.

    Ctrl-C passes. Every other ending of the import is an error of the module's, SystemExit too, and in a process of our own
    os._exit. There, output goes to stderr; in the process of a program that calls us, both are the program's business.
    """
    limit, own = import_limit(), is_own_process()
    with _output_on_stderr() if own else contextlib.nullcontext():
        try:
            with _no_silent_exit() if own else contextlib.nullcontext(), _time_limit(limit, source):
                return load()
        except (UsageError, KeyboardInterrupt):
            raise
        except _TookTooLong as error:
            lines = traceback.extract_tb(error.__traceback__)
            raise _too_long(limit, source, _innermost(lines, source.spec)) from None
        except BaseException as error:
            raise source.problem(
                what_of(error), place(error, source.spec), _EXPECTED, _fix(error, source)
            ) from error


def what_of(error: BaseException) -> str:
    """Describes the exception on one line."""
    if isinstance(error, SystemExit):
        return f"it ends the program while it is imported: SystemExit: {error.code}"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = next(iter(text.splitlines()), "")[:500]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def place(error: BaseException, otherwise: str) -> str:
    """Returns file, line and text of the innermost line of the user's own files that the exception passed.

    These are the files in the folder of the first one that is neither Python's import machinery nor ours.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return _line(error.filename, error.lineno, error.text)
    return _innermost(traceback.extract_tb(error.__traceback__), otherwise)


def _innermost(lines: Iterable[traceback.FrameSummary], otherwise: str) -> str:
    foreign = [line for line in lines if not _is_machinery(line.filename)]
    if not foreign:
        return otherwise
    home = str(Path(foreign[0].filename).parent) + os.sep
    own = [line for line in foreign if line.filename.startswith(home)]
    return _line(own[-1].filename, own[-1].lineno, own[-1].line)


def _too_long(limit: float, source: OperatorSource, where: str) -> UsageError:
    fix = f"let it do no more than define its operators, or set {LIMIT_VARIABLE} to more seconds"
    return source.problem(f"its import did not end within {limit:g} s", where, _EXPECTED, fix)


def _line(filename: str, number: int | None, text: str | None) -> str:
    shown = f": {text.strip()[:200]}" if text and text.strip() else ""
    try:
        here = os.getcwd() + os.sep
    except OSError:  # it is gone
        here = os.sep
    return f"{filename.removeprefix(here) if here != os.sep else filename}, line {number}{shown}"


_OURS = tuple(f"{folder}{os.sep}" for folder in PACKAGE_FOLDERS)


def _is_machinery(filename: str) -> bool:
    standard = str(Path(contextlib.__file__).parent)
    return filename.startswith(("<frozen importlib", f"{standard}/importlib", *_OURS))


def _fix(error: BaseException, source: OperatorSource) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"install {error.name.partition('.')[0]}; a module beside the file is reached in a package folder, "
            "with `from . import NAME`"
        )
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "put the file into a folder with an __init__.py, and name that folder"
    return "mend that line" if not isinstance(error, SystemExit) else "remove the exit from the module"


@contextlib.contextmanager
def _time_limit(seconds: float, source: OperatorSource) -> Iterator[None]:
    """Raises _TookTooLong inside the block when the time is up, and again and again if the block goes on.

    In a process of our own, the main thread is given up after a while, and the process ends.
    """
    thread = threading.current_thread()
    running = True
    over = threading.Event()
    interrupting = threading.Lock()
    main = thread is threading.main_thread()
    given_up = main and is_own_process()

    def ring(number: int, frame: FrameType | None) -> None:
        del number, frame
        if running:
            raise _TookTooLong

    number = _free_signal() if main else None
    interrupt, restore = _by_exception() if number is None else _by_signal(number, ring)

    def watch() -> None:
        if over.wait(seconds):
            return
        started = time.monotonic()
        while not over.wait(_AGAIN_S):
            if given_up and time.monotonic() > started + _STUBBORN_S:
                _give_up(seconds, source, sys._current_frames().get(thread.ident or 0))
            with interrupting:
                if running:
                    interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    try:
        watcher.start()
        yield
    finally:
        running = False
        while not over.is_set():
            with contextlib.suppress(_TookTooLong), interrupting:  # it may come here still
                restore()
                over.set()
        watcher.join()


def _give_up(seconds: float, source: OperatorSource, frame: FrameType | None) -> NoReturn:
    lines = traceback.extract_stack(frame)
    ours = max((i for i, line in enumerate(lines) if line.filename.startswith(_OURS)), default=0)
    where = _innermost(lines[ours:], source.spec)
    os.write(2, f"error: {_too_long(seconds, source, where)}\n".encode())
    _end_process(EXIT_USAGE)


def _free_signal() -> int | None:
    """An unused signal, so that the program's own alarms and timers go on."""
    real_time = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
    return next((number for number in real_time if signal.getsignal(number) is signal.SIG_DFL), None)


def _by_signal(number: int, ring: Callable[[int, FrameType | None], None]) -> tuple[_Act, _Act]:
    """Functions that interrupt this thread, the main one, even while it waits, and that restore the signal's handler."""
    thread = threading.get_ident()
    signal.signal(number, ring)

    def restore() -> None:
        signal.signal(number, signal.SIG_IGN)  # drops one that is under way, which would end the process
        signal.signal(number, signal.SIG_DFL)

    return lambda: signal.pthread_kill(thread, number), restore


def _by_exception() -> tuple[_Act, _Act]:
    """Functions that interrupt this thread at its next line of Python, and that cancel this."""
    thread, raise_in = ctypes.c_ulong(threading.get_ident()), ctypes.pythonapi.PyThreadState_SetAsyncExc
    return lambda: raise_in(thread, ctypes.py_object(_TookTooLong)), lambda: raise_in(thread, None)


_end_process = os._exit


@contextlib.contextmanager
def _no_silent_exit() -> Iterator[None]:
    """os._exit, by which a process ends without a word, is as sys.exit inside the block; not in a process begun there."""
    process = os.getpid()

    def leave(status: int) -> NoReturn:
        if os.getpid() == process:
            raise SystemExit(status)
        _end_process(status)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = _end_process


class _ToStderr(io.TextIOBase):
    """Writes to stderr, which stays open when a module closes this."""

    def write(self, text: str) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def fileno(self) -> int:
        return sys.stderr.fileno()


@contextlib.contextmanager
def _output_on_stderr() -> Iterator[None]:
    """What is written to stdout inside the block goes to stderr: by Python, by C, and by processes that are begun there."""
    with contextlib.ExitStack() as stack:
        if sys.stderr is not None:
            stack.enter_context(contextlib.redirect_stdout(_ToStderr()))
        with contextlib.suppress(OSError):  # there is no stdout, or no stderr
            saved = os.dup(1)
            stack.callback(os.close, saved)
            _flush()
            os.dup2(2, 1)
            stack.callback(os.dup2, saved, 1)
            stack.callback(_flush)
        yield


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError):
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
    ctypes.CDLL(None).fflush(None)
