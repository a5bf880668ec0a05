"""Fills in templates by replacing @name@ only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "templates"
_PLACEHOLDER = re.compile(r"@(\w+)@")


@cache
def template(name: str) -> str:
    """Returns the text of templates/<name>.tmpl."""
    return (_FOLDER / f"{name}.tmpl").read_text(encoding="utf-8")


def render(name: str, values: Mapping[str, str]) -> bytes:
    """Fills in the template's placeholders. KeyError for one that has no value."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template(name)).encode()
