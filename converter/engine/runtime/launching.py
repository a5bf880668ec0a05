"""Keeps TensorRT-RTX from capturing a CUDA graph while another session of the process queues work.

TensorRT-RTX 1.6.1 ends with a segmentation fault (cuEventRecord, called by enqueueV3) where a context captures its graph in
one thread while a context of any engine queues convolutions in another. It captures on the first runs after shapes or
addresses changed. Replaying a graph, and making contexts, is safe beside other sessions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from weakref import WeakSet

_CAPTURE = threading.Lock()
"""Of the session that may capture. Held too while a session joins."""

_SESSIONS: WeakSet[threading.Lock] = WeakSet()
"""A lock for each session, which it holds while it queues work."""

RUNS_TO_CAPTURE = 3
"""Runs with the same shapes and addresses, after which TensorRT-RTX only replays."""


class Launcher:
    """Queues the work of one execution context of TensorRT-RTX on a stream, by its handle. One thread uses it at a time.

    execute: the context's execute_async_v3. captures: whether TensorRT-RTX captures CUDA graphs of it. always: it may do so
    in any run, as where it compiles kernels in the background.
    """

    def __init__(self, execute: Callable[[int], bool], *, captures: bool, always: bool) -> None:
        self._execute = execute
        self._captures = captures
        self._always = always
        self._runs = 0
        self._lock = threading.Lock()
        with _CAPTURE:
            _SESSIONS.add(self._lock)

    def changed(self) -> None:
        """Notes that shapes or addresses change from here on."""
        self._runs = 0

    def __call__(self, stream: int) -> bool:
        if self._captures and (self._always or self._runs < RUNS_TO_CAPTURE):
            self._runs += 1
            with _CAPTURE, ExitStack() as held:
                for lock in tuple(_SESSIONS):
                    held.enter_context(lock)
                return self._execute(stream)
        with self._lock:
            return self._execute(stream)
