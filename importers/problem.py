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
        """Further lines of a part are indented: a name with a newline in it makes no line that looks like another part."""
        what, where, expected, fix = (text.replace("\n", "\n    ") for text in self.to_json().values())
        return f"{what}\n  where:    {where}\n  expected: {expected}\n  fix:      {fix}"

    def to_json(self) -> dict[str, str]:
        """The parts by their names."""
        return asdict(self)
