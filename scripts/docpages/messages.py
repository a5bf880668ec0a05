"""Writes the index of messages: TensorRT's, explained by the code's tables, and all of ours, read from the sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from docpages.marks import escaped, markdown_table
from docpages.message_index import messages_of
from trtsmith.converter.convert import node_problems
from trtsmith.converter.engine.builder.build_warnings import WARNINGS
from trtsmith.converter.engine.builder.explain import CODES, EXPLANATIONS, Explanation
from trtsmith.converter.engine.runtime import explain_failure

LOADING: Sequence[Explanation] = explain_failure._LOADING
ELSEWHERE = {
    **node_problems._OPERATORS,
    **{(domain, "*"): place for domain, place in node_problems._DOMAINS.items()},
}
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("converter", "importers", "trtsmith")


def builder_messages() -> str:
    """TensorRT's messages during parsing and building."""
    rows = [_explained(" ... ".join(e.fragments), e) for e in EXPLANATIONS]
    rows += [_explained(code, e) for code, e in CODES.items()]
    return markdown_table(("TensorRT says", "what it means", "what to do"), rows)


def loading_messages() -> str:
    """TensorRT's messages while an engine is loaded."""
    rows = [_explained(" ... ".join(e.fragments), e) for e in LOADING]
    return markdown_table(("TensorRT says", "what it means", "what to do"), rows)


def builder_warnings() -> str:
    """TensorRT's warnings that concern the user, and the sentences that replace them; "…" for variable parts."""
    rows = [
        (f"`{_readable(row.pattern)}`", escaped(re.sub(r"\{.*?\}", "…", row.sentence)))
        for row in WARNINGS
        if row.sentence
    ]
    return markdown_table(("TensorRT warns", "trtsmith says"), rows)


def _readable(pattern: str) -> str:
    """A regular expression without its syntax."""
    groups = re.sub(r"\(\?P<\w+>[^)]*\)|\.\*\??|\[.*?\]", "…", pattern)
    return re.sub(r"\(: …\)\?| \?|\\", lambda found: " " if found[0] == " ?" else "", groups).replace(
        "|", "` or `"
    )


def _explained(said: str, explanation: Explanation) -> tuple[str, str, str]:
    return f"`{said}`", escaped(explanation.cause), escaped(_sentence(explanation.fix))


def outside_operators() -> str:
    """Operators that no engine runs, by reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for (domain, op_type), place in ELSEWHERE.items():
        name = op_type if not domain else f"{domain}::{op_type}"
        places.setdefault((place.what, place.fix), []).append(f"`{name}`")
    rows = [
        (", ".join(names), escaped(_sentence(what)), escaped(_sentence(fix)))
        for (what, fix), names in places.items()
    ]
    return markdown_table(("operators", "why not", "where instead"), rows)


def all_messages() -> str:
    """Every message of the sources, in alphabetical order."""
    said = {
        message
        for folder in SOURCES
        for path in sorted((ROOT / folder).rglob("*.py"))
        for message in messages_of(path.read_text(encoding="utf-8"))
    }
    rows = sorted((tuple(map(escaped, (m.what, m.expected, m.fix))) for m in said), key=_alphabetical)
    return markdown_table(("message", "expected", "what to do"), rows)


def _alphabetical(row: tuple[str, ...]) -> tuple[str, ...]:
    return (re.sub(r"\W+", " ", row[0]).strip().lower(), *row)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
