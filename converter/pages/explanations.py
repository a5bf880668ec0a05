"""Explains in a sentence why a rule, pass or phase exists, for readers of a report."""

from __future__ import annotations

from collections.abc import Iterable

from trtsmith.converter.rewrite.custom_ops import PASSES
from trtsmith.converter.rewrite.phases import PHASES
from trtsmith.converter.rewrite.rules import RULES

_PHASE_OF = {
    "quantized-moves": "moves",
    "byte-constants": "byte_constants",
    "separate-outputs": "outputs",
}
"""Phases that sign their records with another name."""


def explanations(names: Iterable[str]) -> dict[str, str]:
    """The sentence for each name; a record may have several names, joined by commas. Unknown names are left out."""
    wanted = {part for name in names for part in name.split(", ") if part}
    found = {phase.name: phase.does for phase in PHASES}
    found |= {name: found[phase] for name, phase in _PHASE_OF.items()}
    found |= {one.name: one.doc for one in PASSES}
    for rule in RULES:
        seen = "; ".join(f"{fault.flavour} {', '.join(fault.seen)}" for fault in rule.faults)
        found[rule.name] = f"{rule.doc} (for a fault of TensorRT, seen in {seen})" if seen else rule.doc
    return {name: found[name] for name in sorted(wanted) if name in found}
