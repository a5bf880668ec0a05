"""Collects TensorRT's messages while an engine is loaded and run, for error messages."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from trtsmith.converter.engine.builder.flavour import Flavour
from trtsmith.converter.engine.builder.messages import make_logger

_MOST = 50


class MessageLog(Protocol):
    """Keeps TensorRT's messages, as trtsmith.converter.engine.builder.messages.Messages does in a child process."""

    def add(self, severity: str, message: str) -> None: ...
    def take_errors(self) -> list[str]: ...


class TensorrtLog:
    """TensorRT's logger with its errors, and the plugin libraries in TensorRT's registry.

    announce:  is told each step that may end the process.
    libraries: the digest of each plugin library by its path.
    """

    def __init__(self, logger: Any, messages: MessageLog, announce: Callable[[str], None]) -> None:
        self.logger = logger
        self.announce = announce
        self.take_errors = messages.take_errors
        self.libraries: dict[Path, str] = {}


class ThreadMessages:
    """Keeps each thread's errors apart: TensorRT logs in the calling thread, and sessions may run in several."""

    def __init__(self) -> None:
        self._local = threading.local()

    def add(self, severity: str, message: str) -> None:
        if severity in ("ERROR", "INTERNAL_ERROR"):
            errors = self._errors()
            errors.append(message)
            del errors[:-_MOST]

    def take_errors(self) -> list[str]:
        taken = list(self._errors())
        self._errors().clear()
        return taken

    def _errors(self) -> list[str]:
        if not hasattr(self._local, "errors"):
            self._local.errors = []
        errors: list[str] = self._local.errors
        return errors


@functools.cache
def process_log(flavour: Flavour) -> TensorrtLog:
    """Returns this process's log for a flavour. TensorRT keeps its first logger for ever, and registers a plugin library
    once in a process: neither may depend on one engine's life.
    """
    messages = ThreadMessages()
    return TensorrtLog(make_logger(flavour, messages), messages, lambda step: None)
