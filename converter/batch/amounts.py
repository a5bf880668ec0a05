"""Reads and writes sizes and ages as people do: 10GiB, 500 MB, 30, 12h."""

from __future__ import annotations

import math
import re

_SIZES = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}{end}": 1024**power for power, letter in enumerate("kmgt", 1) for end in ("", "ib")},
}
"""By unit in small letters. A letter alone means what it means to du and to ls: a power of 1024."""

_AGES = {
    "": 86400.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "w": 604800.0,
}

_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)

SIZE = "a size such as 10GiB, 500MB or 0; K, M, G and T alone are powers of 1024"
AGE = "days, as 30 or 0.5, or with a unit: 12h, 45m, 30d, 4w"


def parse_size(text: str) -> int:
    """Reads a size in bytes. Raises ValueError for other text."""
    return int(bytes_of(text))


def bytes_of(text: str) -> float:
    """Returns the size as a float, without rounding."""
    return _amount(text, _SIZES, SIZE)


def parse_age(text: str) -> float:
    """Reads an age in seconds. Raises ValueError for other text."""
    return _amount(text, _AGES, AGE)


def size_text(size: int) -> str:
    """Words a size, such as "12.3 MiB"."""
    if size < 1024:
        return f"{size} B"
    power = min(int(math.log2(size)) // 10, 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"


def age_text(seconds: float) -> str:
    """Words an age, such as "3 days ago"."""
    if seconds < 60:
        return "just now"
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return ""


def _amount(text: str, units: dict[str, float] | dict[str, int], expected: str) -> float:
    found = _AMOUNT.fullmatch(text)
    if found is None or found[2].lower() not in units:
        raise ValueError(f"{text!r} is not {expected}")
    amount = float(found[1]) * units[found[2].lower()]
    if not amount < 2**63:
        raise ValueError(f"{text!r} is not {expected}")
    return amount
