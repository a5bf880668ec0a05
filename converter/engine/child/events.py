"""Passes on what a child process tells its parent: one JSON line for each event, on a pipe of their own."""

from __future__ import annotations

import json
import os
from typing import Any


class Events:
    """Writes the events. A parent that is gone is not an error here: `alive` says so."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.alive = True

    def send(self, event: str, **values: Any) -> None:
        data = json.dumps({"event": event, **values}).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BrokenPipeError:
            self.alive = False

    def phase(self, phase: str) -> None:
        """A step of the work: shown to the user, and named if the process dies in it."""
        self.send("progress", phase=phase, text=phase)
