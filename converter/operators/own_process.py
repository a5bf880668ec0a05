"""Tells whether this process is a command of trtsmith or a program that calls it.

Only in its own does trtsmith change what belongs to the whole process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OWN: ContextVar[bool] = ContextVar("trtsmith_own_process", default=False)


@contextmanager
def own_process() -> Iterator[None]:
    """Marks the process as trtsmith's own, a command or worker, inside the block."""
    token = _OWN.set(True)
    try:
        yield
    finally:
        _OWN.reset(token)


def is_own_process() -> bool:
    """Tells whether this thread is inside such a block."""
    return _OWN.get()
