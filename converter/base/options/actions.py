"""Defines argparse's action for lists: the values of repeated flags add up."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from typing import Any


class AddUp(Action):
    """Joins the values of repeated flags, which replace the default."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, value: Any, flag: Any = None) -> None:
        before = getattr(namespace, self.dest)
        first = before is self.default
        setattr(namespace, self.dest, tuple(dict.fromkeys((*(() if first else before), *value))))
