"""Guesses what a word was meant to be, on the command line and in a zoo's file alike."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.65
"""difflib's ratio of letters that are the same in both: at its own default, 0.6, "frobnicate" is like "locate"."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The word of `known` that is most like it; case, hyphens and underscores do not count. None: nothing is."""
    plain: dict[str, str] = {}
    for one in known:
        plain.setdefault(_plain(one), one)
    close = difflib.get_close_matches(_plain(word), list(plain), n=1, cutoff=_ALIKE)
    if close:
        return plain[close[0]]
    inside = [one for one in plain if len(_plain(word)) >= 3 and _plain(word) in one]
    return plain[inside[0]] if len(inside) == 1 else None


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c not in "-_ ")
