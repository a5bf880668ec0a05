"""Lets helpers of a rule refuse the node by raising an error, which becomes the rule's result."""

from __future__ import annotations

from typing import TypeVar

from trtsmith.importers.opdef import Refusal

T = TypeVar("T")


class RefusedError(Exception):
    """Refuses the node that is being rewritten, with a Refusal or its three parts."""

    def __init__(self, first: Refusal | str, *parts: str) -> None:
        self.refusal = Refusal(first, *parts) if isinstance(first, str) else first
        super().__init__(self.refusal.reason)


def unrefused(found: T | Refusal) -> T:
    """Returns a result; raises RefusedError if it is a Refusal."""
    if isinstance(found, Refusal):
        raise RefusedError(found)
    return found
