"""Sends a child process's events to its parent: one JSON line each, on a separate pipe."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from trtsmith.converter.base.errors import (
    EXIT_USAGE,
    BuildRefused,
    ConversionError,
    InvalidModelError,
    TrtsmithError,
    UsageError,
)
from trtsmith.converter.base.progress import Steps
from trtsmith.importers.problem import Problem


class Events:
    """Writes events, from any thread. A parent that is gone is no error; `alive` tells."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._whole = threading.Lock()  # the lines of two threads must not mix
        self.alive = True

    def send(self, event: str, **values: Any) -> None:
        data = json.dumps({"event": event, **values}).encode() + b"\n"
        with self._whole:
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except BrokenPipeError:
                self.alive = False

    def phase(self, phase: str) -> None:
        """Reports a step of the work: shown to the user, and named if the process dies in it."""
        self.send("progress", phase=phase, text=phase)

    def share(self, part: str, done: float, line: str) -> None:
        """Reports how much of the step is done, from 0 to 1; see Steps.share (converter/base/progress.py)."""
        self.send("progress", part=part, done=round(done, 4), text=line)

    def note(self, text: str) -> None:
        """Sends a line for the user that begins no step."""
        self.send("progress", note=True, text=text)


def tell(event: Mapping[str, Any], progress: Callable[[str], None]) -> None:
    """Handles a `progress` event on the parent's side."""
    text = event["text"]
    if isinstance(progress, Steps) and "part" in event:
        progress.share(event["part"], event["done"], text)
    elif isinstance(progress, Steps) and "note" in event:
        progress.note(text)
    elif text:
        progress(text)


def error_of(event: Mapping[str, Any]) -> TrtsmithError:
    """Makes the error that a `problems` event describes."""
    problems = [Problem(**problem) for problem in event["problems"]]
    for kind in (InvalidModelError, BuildRefused):
        if event.get("kind") == kind.__name__:
            return kind(problems)
    return UsageError(problems) if event["exit_code"] == EXIT_USAGE else ConversionError(problems)
