"""Defines the four parts of every message to a user: what, where, expected, fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Problem:
    """One problem, in four parts.

    what:     the problem in one sentence, with the offending value.
    where:    the file, flag, node (name and op_type) or input.
    expected: the expected value.
    fix:      the flag or edit that fixes it.
    """

    what: str
    where: str
    expected: str
    fix: str

    def __str__(self) -> str:
        """The four parts as lines; further lines of a part are indented, so that a name cannot imitate another part."""
        what, where, expected, fix = (text.replace("\n", "\n    ") for text in self.to_json().values())
        return f"{what}\n  where:    {where}\n  expected: {expected}\n  fix:      {fix}"

    def reworded(self, said: Callable[[str], str]) -> Problem:
        """The same with other words in each part."""
        return Problem(**{part: said(text) for part, text in self.to_json().items()})

    def to_json(self) -> dict[str, str]:
        """Returns the parts by their names."""
        return asdict(self)
