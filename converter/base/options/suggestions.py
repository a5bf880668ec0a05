"""Suggests the closest known word for a misspelt flag, zoo key or operator."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.65
"""difflib's ratio of letters that are the same in both: at its own default, 0.6, "frobnicate" is like "locate"."""

_MISSPELT = 2
_MISSPELT_SHARE = 0.2
"""Letters of both words that the other lacks, and their share of all."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the most similar of the known words, ignoring case, hyphens and underscores; None if none is similar."""
    plain: dict[str, str] = {}
    for one in known:
        plain.setdefault(_plain(one), one)
    close = difflib.get_close_matches(_plain(word), list(plain), n=1, cutoff=_ALIKE)
    if close:
        return plain[close[0]]
    inside = [one for one in plain if len(_plain(word)) >= 3 and _plain(word) in one]
    return plain[inside[0]] if len(inside) == 1 else None


def misspelt(word: str, known: Iterable[str]) -> list[str]:
    """Returns the known words of which the word can be a misspelling, the nearest first: one letter differs, one or two are
    missing or too many, or two have changed places. A further word inside it ("BatchedBEVNMS") makes it another name.
    """
    found = []
    plain = _plain(word)
    for one in known:
        words = plain, _plain(one)
        if abs(len(words[0]) - len(words[1])) > _MISSPELT:  # a model's name may have a million letters
            continue
        blocks = difflib.SequenceMatcher(None, *words).get_matching_blocks()
        total = sum(map(len, words))
        apart = total - 2 * sum(block.size for block in blocks)
        if apart <= _MISSPELT and (apart <= _MISSPELT_SHARE * total or sorted(words[0]) == sorted(words[1])):
            found.append((apart, one))
    return [one for _, one in sorted(found)]


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c not in "-_ ")
