"""Runs work in a thread beside what the main thread waits for; it can be stopped where its result is not wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import Generic, TypeVar

import onnxruntime as ort

from trtsmith.converter.model.ort import RUN_OPTIONS

T = TypeVar("T")


class Beside(Generic[T]):
    """Work that begins at once. Functions of the user's, which cannot be stopped, are no such work."""

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
        """Waits for it. Raises what the work raised; it is stopped where a signal ends the waiting."""
        try:
            self._thread.join()
        except BaseException:
            self.stop()
            raise
        if self._error is not None:
            raise self._error
        return self._made[0]

    def stop(self) -> None:
        """Ends it: onnxruntime at its next node, and what follows at its next run. Nothing is raised."""
        self._options.terminate = True
        self._thread.join()
