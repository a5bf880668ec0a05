"""Reports the precision pass for the screen, the report and the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from trtsmith.converter.rewrite.precision.keep import Kept
from trtsmith.converter.rewrite.precision.sums import LONGEST
from trtsmith.importers.counted import counted


@dataclass(frozen=True)
class OutputError:
    """An output's error, ||y - x|| / ||x||, and the allowed one."""

    output: str
    error: float
    allowed: float

    @property
    def within(self) -> bool:
        return self.error <= self.allowed


@dataclass(frozen=True)
class SumsReport:
    """Report on sums of products, for a TensorRT that sums float16 products in float16 only.

    accumulate: "auto", "fp32" or "fp16". long: nodes of more than LONGEST products, or an unknown number, that could be in
    float16; kept: nodes in float32 for their sums.
    error: of the output nearest to its limit with every sum in float16, emulated; None where that was not tried: `why`.
    left:  the same with `kept` in float32.
    """

    accumulate: str
    long: int
    kept: int
    error: OutputError | None = None
    left: OutputError | None = None
    why: str = ""

    def line(self) -> str:
        """Tells the user how many nodes stay in float32, why, and the flag to change that; "" without long sums."""
        if not self.long and not self.kept:
            return ""
        nodes = f"{counted(self.long, 'node')} of more than {LONGEST} products"
        if self.accumulate != "auto":
            other = {
                "fp16": "fp32 keeps them in float32",
                "fp32": "fp16 lets TensorRT-RTX sum them in float16",
            }
            return (
                f"{self.kept} of {nodes} kept in float32 (--accumulate {self.accumulate}); "
                f"--accumulate {other[self.accumulate]}"
            )
        if self.error is None:
            return f"0 of {nodes} kept in float32, untried: {self.why}; --accumulate fp32 keeps them"
        off = f"output {self.error.output!r} off by {self.error.error:.2g}, allowed {self.error.allowed:.2g}"
        if not self.kept:
            return f"0 of {nodes} kept in float32: summed in float16, {off}; --accumulate fp32 keeps them"
        kept = counted(self.kept, "node")
        return (
            f"{kept} kept in float32: with all sums in float16, {off}; --accumulate fp16 keeps none for that"
        )


@dataclass(frozen=True)
class PrecisionReport:
    """One reduction.

    precision: "float16", "bfloat16" or "float32".
    reduced:   nodes in that type. kept: nodes that stay in float32 for a reason; beside: nodes that follow those.
    casts:     inserted Casts. weights: initializers in the new type. seen: whether ranges of values were looked at.
    folded:    names of nodes whose scale or shift is in the weights of a convolution (affine.py).
    sums:      what became of sums of products; None where TensorRT sums them in float32.
    own:       whether the model had this precision itself, and nothing was changed.
    share:     of a quantized network's products, those that would be in the type, if so few that nothing changed.
    products:  matrix products and convolutions that could be in the type, as neither the user nor their whole numbers keep
        them in float32. products_reduced: those of them that are.
    untried:   why float16's range was not tried; "" where it was, or means nothing.
    drawn:     by input, the smallest and the largest of the generated values that it was tried on; of given values nothing.
    eight_bits: of a network in 8 and in 16 bits, "int8" or "fp8"; layers: those that are in it.
    """

    precision: str
    reduced: int
    kept: tuple[Kept, ...]
    beside: int
    casts: int
    weights: int
    seen: bool = False
    folded: tuple[str, ...] = ()
    sums: SumsReport | None = None
    own: bool = False
    share: float | None = None
    products: int = 0
    products_reduced: int = 0
    untried: str = ""
    drawn: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    eight_bits: str = ""
    layers: int = 0

    @property
    def unchanged(self) -> bool:
        """Whether the network is unchanged."""
        return self.own or self.share is not None

    def summary(self) -> str:
        """One line: "412 nodes in float16, 31 kept in float32 (20 a norm..., ...), 40 beside them; 57 Casts"."""
        reduced = counted(self.reduced, "node")
        if self.own:
            return f"{reduced} in {self.precision}, by the model's own QuantizeLinear and DequantizeLinear"
        if self.share is not None:
            return f"the network stays in float32: {self.share:.1%} of its products are not of whole numbers"
        if self.precision == "float32" and not self.reduced:
            return "every node is in float32 already"
        if not (self.reduced or self.kept or self.layers or self.products):
            return f"no node in {self.precision}: the model has no matrix product and no convolution"
        counts = Counter(short_reason(kept.reason) for kept in self.kept)
        why = "; ".join(f"{count} × {reason}" for reason, count in counts.most_common())
        kept = f", {len(self.kept)} kept in float32" + (f" ({why})" if why else "") if self.kept else ""
        beside = f", {self.beside} between them in float32" if self.beside else ""
        folded = f", {len(self.folded)} folded into convolutions" if self.folded else ""
        layers = f"{counted(self.layers, 'node')} in {self.eight_bits}, " if self.eight_bits else ""
        return f"{layers}{reduced} in {self.precision}{kept}{beside}{folded}, {counted(self.casts, 'Cast')} inserted"

    def range_line(self) -> str:
        """For the user: that float16's range was not tried, and why; "" where it was."""
        return f"whether values fit float16 was not tried: {self.untried}" if self.untried else ""

    def drawn_warning(self) -> str:
        """That float16's range was tried on generated inputs, and on which values; "" where it was not."""
        if not self.drawn or not self.reduced:
            return ""
        told = [f"{name!r} from {low:.3g} to {high:.3g}" for name, (low, high) in self.drawn.items()]
        more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        return (
            f"whether values fit float16 was tried on generated inputs only ({', '.join(told[:_SHOWN])}{more}): "
            "larger real values may overflow; --inputs FILE.npz tries them"
        )

    def warning(self) -> str:
        """Warns if most products are in float32, with the most frequent reasons; "" otherwise."""
        if 2 * self.products_reduced >= self.products:
            return ""
        groups: dict[str, list[Kept]] = {}
        for kept in self.kept:
            groups.setdefault(short_reason(kept.reason), []).append(kept)
        largest = sorted(groups.items(), key=lambda group: -len(group[1]))[:_REASONS]
        why = [f"{len(nodes)} × {nodes[0].reason} ({nodes[0].node})" for _, nodes in largest]
        if largest and largest[0][0] == _BEYOND and self.precision == "float16":
            why.append("--precision bf16 has the range of float32")
        few = f"{self.products_reduced} of {self.products} matrix products and convolutions are in {self.precision}"
        return "; ".join([few, *why])

    def to_json(self) -> dict[str, Any]:
        """Returns plain data. An error that is not finite is null there: JSON has no infinity."""
        document = asdict(self)
        for one in (document["sums"] or {}).values():
            if isinstance(one, dict) and not isfinite(one["error"]):
                one["error"] = None
        return document


_REASONS = 3
"""Reasons that a warning names."""

_SHOWN = 3
"""Inputs that a warning names."""

_BEYOND = "values that the type does not hold, on the inputs"


def short_reason(reason: str) -> str:
    """A reason without what differs from node to node."""
    if reason.startswith("constant "):
        return "constants that the type does not hold"
    if " reached " in reason or " stayed below " in reason:
        return _BEYOND
    return reason
