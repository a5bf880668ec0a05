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
    """What keeps TensorRT's messages: trtsmith.converter.engine.builder.messages.Messages in a child process."""

    def add(self, severity: str, message: str) -> None: ...
    def take_errors(self) -> list[str]: ...


class TensorrtLog:
    """TensorRT's logger with the errors it logged, and the plugin libraries that TensorRT's registry has.

    announce:  is told each step that may end the process.
    libraries: the digest of each plugin library by its path.
    """

    def __init__(self, logger: Any, messages: MessageLog, announce: Callable[[str], None]) -> None:
        self.logger = logger
        self.announce = announce
        self.take_errors = messages.take_errors
        self.libraries: dict[Path, str] = {}


class ThreadMessages:
    """TensorRT logs in the thread that calls it: two sessions in two threads must not read each other's errors."""

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
    """The log of this process for a flavour. TensorRT keeps the first logger that it is given as its global one and
    calls it for ever, and a plugin library is registered once in a process: neither may depend on one engine's life."""
    messages = ThreadMessages()
    return TensorrtLog(make_logger(flavour, messages), messages, lambda step: None)
