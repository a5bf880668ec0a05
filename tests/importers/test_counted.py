"""Counts in messages: one of a thing is no plural, and no message writes its own."""

from __future__ import annotations

import re

import pytest

from tests.test_architecture import ROOT, source_files
from trtsmith.importers.counted import counted


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (0, "node", "0 nodes"),
        (1, "node", "1 node"),
        (2, "plugin node", "2 plugin nodes"),
        (1024, "Cast", "1,024 Casts"),
        (0.5, "cpu", "0.5 cpus"),
    ],
)
def test_one_is_no_plural(count: float, noun: str, words: str) -> None:
    assert counted(count, noun) == words


NOUNS = "nodes|Casts|values|inputs|outputs|elements|creators|problems|tasks"
BARE = re.compile(rf"\{{(?:len\([^{{}}]*\)|self\.reduced|self\.casts|count)(?::,)?\}} (?:{NOUNS})\b")
OTHERS = ("model/check.py", "scaffold/model_node.py", "verify/compare.py", "bundle/build_here.py")
"""Files whose counts are above a limit or several, are followed by a verb, or that run without the package."""


def test_messages_count_with_it() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in source_files("converter", "importers")
        for found in BARE.finditer(path.read_text())
        if not str(path).endswith(OTHERS)
    ]
    assert wrong == []
