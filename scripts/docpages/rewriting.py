"""Writes the tables of rewriting phases and of TensorRT's faults that conversions avoid, as the code declares them."""

from __future__ import annotations

from docpages.marks import escaped, markdown_table
from trtsmith.converter.rewrite.phases import PHASES, known_faults
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.target import Fault, Target


def phases() -> str:
    """The phases, in order."""
    rows = [(str(number), f"`{one.name}`", escaped(one.does)) for number, one in enumerate(PHASES, 1)]
    return markdown_table(("", "phase", "leaves behind"), rows)


def faults() -> str:
    """Every fault, by TensorRT, and what avoids it."""
    header = ("TensorRT", "seen in", "fault", "fixed in", "evidence", "avoided by")
    return markdown_table(header, sorted(_row(fault, name) for name, fault in known_faults()))


def _row(fault: Fault, name: str) -> tuple[str, ...]:
    docs = {rule.name: f": {escaped(rule.doc)}" for rule in RULES}
    what = escaped(fault.what[:1].upper() + fault.what[1:])
    by = f"`{name}`{docs.get(name, '')}"
    seen, fixed = ", ".join(fault.seen), fault.fixed or "not known"
    return Target(fault.flavour).title, seen, what, fixed, escaped(fault.evidence), by
