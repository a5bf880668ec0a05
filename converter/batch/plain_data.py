"""Changes texts in plain data: the paths of a folder in which a task was done and its results do not stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def with_text(value: Any, old: str, new: str) -> Any:
    """Plain data with `new` in the place of `old` in every text, keys too."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {with_text(key, old, new): with_text(one, old, new) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [with_text(one, old, new) for one in value]
    return value
