"""The phases of rewriting, and the faults of TensorRT that conversions write around, as the code declares them."""

from __future__ import annotations

from collections.abc import Iterator

from docpages.marks import escaped, markdown_table
from trtsmith.converter.rewrite import separate_outputs
from trtsmith.converter.rewrite.phases import PHASES
from trtsmith.converter.rewrite.rules import RULES
from trtsmith.converter.rewrite.target import Fault, Target


def phases() -> str:
    """The one order of phases."""
    rows = [(str(number), f"`{one.name}`", escaped(one.does)) for number, one in enumerate(PHASES, 1)]
    return markdown_table(("", "phase", "leaves behind"), rows)


def faults() -> str:
    """Every fault, by TensorRT and rule."""
    header = ("TensorRT", "seen in", "what it does", "gone in", "seen by", "written otherwise by")
    return markdown_table(header, sorted(_row(fault, by) for fault, by in declared()))


def declared() -> Iterator[tuple[Fault, str]]:
    """Each fault with what writes around it."""
    for rule in RULES:
        yield from ((fault, f"rule `{rule.name}`: {escaped(rule.doc)}") for fault in rule.faults)
        yield from ((fault, f"rule `{rule.name}`, in part: {escaped(rule.doc)}") for fault in rule.partly)
    for fault in (separate_outputs.UNWRITTEN, separate_outputs.LOST):
        yield fault, "an Identity before the output"


def _row(fault: Fault, by: str) -> tuple[str, ...]:
    what = escaped(fault.what[:1].upper() + fault.what[1:])
    return (
        Target(fault.flavour).title,
        ", ".join(fault.seen),
        what,
        fault.fixed or "not known",
        escaped(fault.evidence),
        by,
    )
