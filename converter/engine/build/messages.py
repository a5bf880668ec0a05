"""Child side: receives what TensorRT tells by its logger and its progress monitor."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import Any, Protocol

from trtsmith.converter.engine.build import log as build_log
from trtsmith.converter.engine.build.explain import reasons
from trtsmith.converter.engine.build.flavour import Flavour
from trtsmith.converter.engine.child.events import Events

_MOST_WARNINGS = 50
_STEP_PERIOD_S = 2.0  # TensorRT reports thousands of steps for a large network


class Messages:
    """What TensorRT logs: every message to the log, errors and warnings kept for the report."""

    def __init__(self, log_path: Path, verbose: bool, events: Events) -> None:
        self.log_path = log_path
        self._descriptor = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._verbose = verbose
        self._events = events
        self._errors: list[str] = []
        self.warnings: dict[str, None] = {}

    def add(self, severity: str, message: str) -> None:
        # Of the verbose messages, gigabytes for a large model, only those that name a node are of use later.
        if severity == "VERBOSE" and not self._verbose and not build_log.names_node(message):
            return
        self.write(f"{severity}: {message}\n")
        if severity in ("ERROR", "INTERNAL_ERROR"):
            self._errors.append(message)
        elif severity == "WARNING" and len(self.warnings) < _MOST_WARNINGS:
            self.warnings[message] = None
        if self._verbose and severity != "VERBOSE":
            self._events.send("progress", text=f"TensorRT: {message}")

    def write(self, text: str) -> None:
        os.write(self._descriptor, text.encode(errors="replace"))

    def close(self) -> None:
        """Nothing may be logged after this."""
        os.close(self._descriptor)

    def take_errors(self) -> list[str]:
        """The errors since the last call, without what a machine without a GPU adds to each."""
        errors, self._errors = self._errors, []
        return reasons(errors)


class Listener(Protocol):
    """What keeps what TensorRT logs."""

    def add(self, severity: str, message: str) -> None: ...


def make_logger(flavour: Flavour, messages: Listener) -> Any:
    """An ILogger that hands everything to `messages`."""
    trt: Any = flavour.module

    class Log(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            messages.add(severity.name, message)

    return Log()


class _Relay:
    """Hands what TensorRT logs to whoever listens at the moment."""

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
    """The one ILogger of this process, which from now on hands everything to `messages`.

    TensorRT keeps the first logger that it is given, whatever builder comes with another one later.
    """
    logger, relay = _process_logger(flavour)
    relay.listener = messages
    return logger


def make_monitor(flavour: Flavour, events: Events, *, every_step: bool = False) -> Any:
    """An IProgressMonitor that reports two levels of TensorRT's phases, and stops for a dead parent.

    A phase is named once, and of all steps there is one line every two seconds at most; every_step: all of them.
    """
    trt: Any = flavour.module
    steps: dict[str, int] = {}
    named: set[str] = set()
    last = time.monotonic()

    def tell(text: str, *, at_once: bool) -> None:
        nonlocal last
        now = time.monotonic()
        if at_once or every_step or now - last >= _STEP_PERIOD_S:
            last = now
            events.send("progress", text=text)

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, name: str, parent: str | None, count: int) -> None:
            if parent is None or len(steps) < 2:
                steps[name] = count
                tell(f"{name} ({count} steps)", at_once=name not in named)
                named.add(name)

        def step_complete(self, name: str, step: int) -> bool:
            if steps.get(name, 0) > 1:
                tell(f"{name} ({step + 1}/{steps[name]})", at_once=False)
            return events.alive

        def phase_finish(self, name: str) -> None:
            steps.pop(name, None)

    return Monitor()
