"""Child side: receives TensorRT's messages from its logger and its progress monitor."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, Protocol

from trtsmith.converter.engine.builder import log as build_log
from trtsmith.converter.engine.builder.build_warnings import WarningList
from trtsmith.converter.engine.builder.explain import reasons
from trtsmith.converter.engine.builder.flavour import Flavour
from trtsmith.converter.engine.builder.monitor import BuildMonitor
from trtsmith.converter.engine.builder.repeats import Repeats
from trtsmith.converter.engine.child.events import Events


class Messages:
    """Receives TensorRT's messages: logs all of them, and keeps errors and warnings for the report.

    verbose: whether the user is shown them, but for TensorRT's own verbose ones: those are some 20 lines a node, of what the
    parser and the optimizer do with each, and are for the log.
    """

    def __init__(self, log_path: Path, verbose: bool, events: Events) -> None:
        self.log_path = log_path
        self._descriptor = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._verbose = verbose
        self._shown = Repeats(lambda message: events.note(f"TensorRT: {message}"))
        self._errors: list[str] = []
        self._warnings = WarningList()

    def add(self, severity: str, message: str) -> None:
        # Of the verbose messages, gigabytes for a large model, only those that name a node are of use later.
        if severity == "VERBOSE" and not self._verbose and not build_log.names_node(message):
            return
        self.write(f"{severity}: {message}\n")
        if severity in ("ERROR", "INTERNAL_ERROR"):
            self._errors.append(message)
        elif severity == "WARNING":
            self._warnings.add(message)
        if self._verbose and severity != "VERBOSE" and not build_log.says_nothing(f"{severity}: {message}"):
            self._shown(message)

    def write(self, text: str) -> None:
        os.write(self._descriptor, text.encode(errors="replace"))

    def flush(self) -> None:
        """Tells at the end of a step how many similar messages were not shown."""
        self._shown.flush()

    def warnings(self) -> tuple[str, ...]:
        """Returns the warnings so far, in trtsmith's words."""
        return self._warnings.sentences()

    def close(self) -> None:
        """Closes the log."""
        os.close(self._descriptor)

    def take_errors(self) -> list[str]:
        """Returns the errors since the last call, without the notes that a missing GPU adds to each."""
        errors, self._errors = self._errors, []
        return reasons(errors)


class Listener(Protocol):
    """Receives TensorRT's messages."""

    def add(self, severity: str, message: str) -> None: ...


def make_logger(flavour: Flavour, messages: Listener) -> Any:
    """Makes an ILogger that hands everything to `messages`."""
    trt: Any = flavour.module

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            messages.add(severity.name, message)

    return Log()


class _Relay:
    """Hands TensorRT's messages to the current listener."""

    def __init__(self) -> None:
        self.listener: Listener | None = None

    def add(self, severity: str, message: str) -> None:
        if self.listener is not None:
            self.listener.add(severity, message)


@functools.cache
def _process_logger(flavour: Flavour) -> tuple[Any, _Relay]:
    relay = _Relay()
    return make_logger(flavour, relay), relay


def request_logger(flavour: Flavour, messages: Listener) -> Any:
    """Returns the process's only ILogger, which from now on passes everything to `messages`.

    TensorRT keeps the first logger that it is given, whatever builder comes with another one later.
    """
    logger, relay = _process_logger(flavour)
    relay.listener = messages
    return logger


def make_monitor(flavour: Flavour, events: Events) -> Any:
    """Makes an IProgressMonitor that reports the progress of the build, and stops it for a dead parent."""
    trt: Any = flavour.module
    inner = BuildMonitor(events)

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, name: str, parent: str | None, count: int) -> None:
            inner.phase_start(name, parent, count)

        def step_complete(self, name: str, step: int) -> bool:
            return inner.step_complete(name, step)

        def phase_finish(self, name: str) -> None:
            inner.phase_finish(name)

    return Monitor()
