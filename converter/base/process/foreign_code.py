"""Lets signals end the process during foreign C++ code, in which Python's handlers would wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Handler = Callable[..., Any]

_handlers: dict[int, Handler] = {}


@contextmanager
def handlers_in_force(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Declares, for the block, the caller's handlers, which `foreign_code` may suspend for a while."""
    before = dict(_handlers)
    _handlers.update(handlers)
    try:
        yield
    finally:
        _handlers.clear()
        _handlers.update(before)


@contextmanager
def foreign_code() -> Iterator[None]:
    """Lets signals whose handlers are in force end the process at once inside the block.

    What is left then are scratch folders, which the next command removes (converter/base/process/scratch_folder.py).
    Only the main thread may set handlers; in a program that has its own, nothing changes.
    """
    mine = {}
    if _handlers and threading.current_thread() is threading.main_thread():
        mine = {number: known for number, known in _handlers.items() if signal.getsignal(number) is known}
    try:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)
        yield
    finally:
        for number, known in mine.items():
            signal.signal(number, known)
