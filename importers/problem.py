"""Defines the four parts of every message to a user: what, where, expected, fix."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, in four parts.

    what:     what went wrong, one sentence, with the value that was not liked.
    where:    the file, flag, node (name and op_type) or input that it is about.
    expected: what would have been right.
    fix:      the flag or edit that mends it.
    """

    what: str
    where: str
    expected: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}\n  where:    {self.where}\n  expected: {self.expected}\n  fix:      {self.fix}"

    def to_json(self) -> dict[str, str]:
        """The parts by their names."""
        return asdict(self)
