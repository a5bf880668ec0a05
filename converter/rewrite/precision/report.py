"""Reports what the precision pass did, for the screen, the report and the manifest."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from trtsmith.converter.rewrite.precision.keep import Kept


@dataclass(frozen=True)
class PrecisionReport:
    """One reduction.

    precision: "float16", "bfloat16" or "float32".
    reduced:   nodes in that type. kept: nodes that stay in float32 for a reason; beside: nodes that follow those.
    casts:     inserted Casts. weights: initializers in the new type. seen: whether ranges of values were looked at.
    folded:    names of nodes whose scale or shift is in the weights of a convolution (affine.py).
    own:       whether the model had this precision itself, and nothing was changed.
    """

    precision: str
    reduced: int
    kept: tuple[Kept, ...]
    beside: int
    casts: int
    weights: int
    seen: bool = False
    folded: tuple[str, ...] = ()
    own: bool = False

    def summary(self) -> str:
        """One line: "412 nodes in float16, 31 kept in float32 (20 a norm..., ...), 40 beside them; 57 Casts"."""
        if self.own:
            return f"{self.reduced} nodes in {self.precision}, by the model's own QuantizeLinear and DequantizeLinear"
        counts = Counter(_short(kept.reason) for kept in self.kept)
        why = "; ".join(f"{count} × {reason}" for reason, count in counts.most_common())
        kept = f", {len(self.kept)} kept in float32" + (f" ({why})" if why else "") if self.kept else ""
        beside = f", {self.beside} between them in float32" if self.beside else ""
        folded = f", {len(self.folded)} folded into convolutions" if self.folded else ""
        return f"{self.reduced} nodes in {self.precision}{kept}{beside}{folded}, {self.casts} Casts inserted"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _short(reason: str) -> str:
    """A reason without what differs from node to node."""
    if reason.startswith("constant "):
        return "constants that the type does not hold"
    if " reached " in reason or " stayed below " in reason:
        return "values that the type does not hold, on the inputs"
    return reason
