"""Names models and variants: each name is a folder of its own, on any file system and whatever the case of its letters."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence

MOST_CHARACTERS, MOST_BYTES = 100, 200
"""A folder's name may have 255 bytes; what is written into it is named after it, too."""

TAKEN = frozenset({"results.json", "junit.xml", "index.html"})
"""Files of a batch, beside the folders of its models."""

_UNSAFE = re.compile(r'[/\\:*?"<>|]')
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def folded(name: str) -> str:
    """What two names have in common that are one folder on some file system."""
    return unicodedata.normalize("NFKC", name).casefold()


def name_fault(name: str) -> str:
    """Why a name cannot be a folder's, as the rest of a sentence; "" if it can."""
    if not name:
        return "it is empty"
    if not name.isprintable():
        return "it has a control character, a newline or the like"
    if found := _UNSAFE.search(name):
        return f"it has a {found.group()!r}, which not every file system takes"
    if name.startswith((".", "-", "~")) or name != name.strip() or name.endswith("."):
        return "it begins with a dot, a dash, a tilde or a blank, or ends with a dot or a blank"
    if len(name) > MOST_CHARACTERS or len(name.encode(errors="replace")) > MOST_BYTES:
        return f"it is longer than {MOST_CHARACTERS} characters or {MOST_BYTES} bytes"
    if _DEVICES.fullmatch(name):
        return "it is a device's on some systems"
    return "it is a file of the batch itself" if folded(name) in TAKEN else ""


def safe_name(text: str) -> str:
    """The nearest name that can be a folder's."""
    name = "".join(c if c.isprintable() and not _UNSAFE.match(c) else "_" for c in text)
    name = name.strip().rstrip(".").lstrip(".-~ ")[:MOST_CHARACTERS]
    while len(name.encode(errors="replace")) > MOST_BYTES:
        name = name[:-1]
    name = name.rstrip(" .") or "model"
    return name if not name_fault(name) else f"_{name}"  # a device's name, or one of TAKEN: these are short


def unique_names(candidates: Sequence[Sequence[str]]) -> tuple[list[str], list[list[int]]]:
    """A name for each model, and the groups of models, by position, that have one name still.

    candidates: of each model its names, the one that it would have first. Only where two models have one name do they,
    both, get their next ones: names change as little as may be when a zoo grows.
    """
    chosen = [0] * len(candidates)
    while True:
        groups = defaultdict(list)
        for position, names in enumerate(candidates):
            groups[folded(names[chosen[position]])].append(position)
        clashes = [group for group in groups.values() if len(group) > 1]
        movable = [
            position
            for group in clashes
            for position in group
            if chosen[position] + 1 < len(candidates[position])
        ]
        if not movable:
            return [names[chosen[position]] for position, names in enumerate(candidates)], clashes
        for position in movable:
            chosen[position] += 1
