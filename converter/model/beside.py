"""Runs work in a thread beside the main thread's own wait, and can stop it if its result is no longer wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import Generic, TypeVar

import onnxruntime as ort

from trtsmith.converter.model.ort import RUN_OPTIONS

T = TypeVar("T")


class Beside(Generic[T]):
    """Work that starts at once in a thread. It must not call users' functions, which cannot be stopped."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._options = ort.RunOptions()
        self._made: list[T] = []
        self._error: BaseException | None = None
        context = copy_context()
        context.run(RUN_OPTIONS.set, self._options)
        # a daemon: a signal that ends the process does not wait for it
        self._thread = Thread(target=context.run, args=(self._run, work), name="beside", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._made.append(work())
        except BaseException as error:  # it is raised where the result is asked for
            self._error = error

    def result(self) -> T:
        """Waits for the result. Raises the work's exception; a signal that ends the wait also stops the work."""
        try:
            self._thread.join()
        except BaseException:
            self.stop()
            raise
        if self._error is not None:
            raise self._error
        return self._made[0]

    def stop(self) -> None:
        """Stops the work: onnxruntime at its next node, later steps at their next run. Raises nothing."""
        self._options.terminate = True
        self._thread.join()
