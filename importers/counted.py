"""Counts things in words: "1 node", "2 nodes"."""

from __future__ import annotations


def counted(count: float, noun: str) -> str:
    """The count with its noun: "1 node", "1,024 nodes", "0.5 cpus"; the last word gets an s."""
    return f"{count:,} {noun}" + "s" * (count != 1)
