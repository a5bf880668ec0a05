"""Shows the first few of many messages that differ only in names and numbers, and counts the others."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

SHOWN = 3
"""How many messages of a kind are shown: enough to see what differs between them."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|\([^)]*\)")
_NAME = re.compile(r"\S*[/\d]\S*")  # of a node or a tensor, or a number
_LISTED = re.compile(r"§(?:\W*§)*")


@dataclass
class _RepeatedMessage:
    """Messages of one kind. last: that was not told."""

    count: int = 0
    last: str = ""


class Repeats:
    """Suppresses repeated messages. Called with each message, from any thread; `flush` ends it."""

    def __init__(self, tell: Callable[[str], None], shown: int = SHOWN) -> None:
        self._tell, self._shown = tell, shown
        self._kinds: dict[str, _RepeatedMessage] = {}
        self._lock = threading.Lock()

    def __call__(self, message: str) -> None:
        with self._lock:
            kind = self._kinds.setdefault(kind_of_message(message), _RepeatedMessage())
            kind.count += 1
            if kind.count <= self._shown:
                self._tell(message)
            else:
                kind.last = message

    def flush(self) -> None:
        """Tells how often suppressed kinds occurred, and starts again."""
        with self._lock:
            for kind in self._kinds.values():
                more = kind.count - self._shown
                if more == 1:
                    self._tell(kind.last)
                elif more > 1:
                    self._tell(f"... {more:,} more like this: {kind.last}")
            self._kinds.clear()


def kind_of_message(message: str) -> str:
    """Returns the message without parts that differ by node: quoted names, names with a slash or digit, and lists."""
    without = _NAME.sub("§", _QUOTED.sub("§", message))
    return _LISTED.sub("§", without)
