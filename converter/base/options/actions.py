"""Actions of argparse: a flag of one value may be given once; values of a list add up."""

from __future__ import annotations

from argparse import Action, ArgumentError, ArgumentParser, Namespace, _StoreAction
from typing import Any

_GIVEN = "flags_given"
"""In a namespace while it is filled: the values of flags that were given, by dest."""


class Once(_StoreAction):
    """Stores the value, and refuses a second one."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, value: Any, flag: Any = None) -> None:
        if flag is not None and self.dest in given(namespace):
            before = given(namespace)[self.dest]
            raise ArgumentError(self, f"{before!r} and {value!r} are given; it takes one value")
        given(namespace)[self.dest] = value
        setattr(namespace, self.dest, value)


class AddUp(Action):
    """Joins the values of all its flags, which stand in the place of the default."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, value: Any, flag: Any = None) -> None:
        values = dict.fromkeys((*given(namespace).get(self.dest, ()), *value))
        given(namespace)[self.dest] = tuple(values)
        setattr(namespace, self.dest, tuple(values))


def given(namespace: Namespace) -> dict[str, Any]:
    """The values of flags that were given so far, by dest."""
    found: dict[str, Any] = vars(namespace).setdefault(_GIVEN, {})
    return found


def forget_given(namespace: Namespace) -> None:
    """Ends the parsing: the namespace holds options alone."""
    vars(namespace).pop(_GIVEN, None)
