"""Writes strings and comments as TOML."""

from __future__ import annotations

import json
import re

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_string(text: str) -> str:
    """A basic string. UnicodeEncodeError for what TOML cannot hold: names of files that are not UTF-8."""
    text.encode()
    # As JSON, but for what JSON leaves as it is and an editor would not show.
    return "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in json.dumps(text, ensure_ascii=False))


def toml_key(text: str) -> str:
    """A key, with quotes where it needs them."""
    return text if _BARE_KEY.fullmatch(text) else toml_string(text)


def comment(text: str) -> str:
    """One line, whatever is in the text."""
    return "# " + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
