"""Lets what a rule calls refuse the node: by an error, which becomes the rule's result."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement

T = TypeVar("T")

Rewriter = Callable[[NodeView], Replacement | Refusal | None]


class RefusedError(Exception):
    """Ends the rewriting of a node."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def refusing(rewrite: Rewriter) -> Rewriter:
    """The same function of a rule, which may raise RefusedError instead of giving back a Refusal."""

    @wraps(rewrite)
    def rewrite_or_refuse(node: NodeView) -> Replacement | Refusal | None:
        try:
            return rewrite(node)
        except RefusedError as error:
            return error.refusal

    return rewrite_or_refuse


def unrefused(found: T | Refusal) -> T:
    """What was found. RefusedError: it is a Refusal."""
    if isinstance(found, Refusal):
        raise RefusedError(found)
    return found
