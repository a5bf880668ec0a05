"""Hears signals that end a batch, so that it can end in order: what is done stays, what runs is ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """In a with statement the first signal is only noted, and passed on; a second one raises KeyboardInterrupt.

    heard: the signal's number, 0 for none. A signal that is ignored stays so. Where this is not the main thread, signals
    do what they do.
    """

    def __init__(self) -> None:
        self.heard = 0
        self._then: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def then(self, stop: Callable[[], None] | None) -> None:
        """What is done when a signal comes, at once if one has come; it may be called within any line of Python."""
        self._then = stop
        if self.heard and stop is not None:
            stop()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.heard:
            raise KeyboardInterrupt
        self.heard = number
        if self._then is not None:
            self._then()
