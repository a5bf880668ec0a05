"""Describes the cost of 8 bits for the verdict, its report and the screen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any


@dataclass(frozen=True)
class OutputCost:
    """The change of an output by the precision, over all samples.

    error: ratio of norms, or share of whole numbers. rows, flipped: of scores [N, C] the rows, and those whose largest is
    another one; 0 of other outputs.
    """

    output: str
    error: float
    rows: int = 0
    flipped: int = 0


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer in 8 bits alone: the change of the worst output on the first sample."""

    node: str
    op_type: str
    error: float


@dataclass(frozen=True)
class PrecisionCost:
    """The cost of a precision.

    samples: which inputs it was measured on. most: what --max-cost allows; None: anything.
    layers: the costliest first, of `tried` that were run out of `quantized`; () where none was.
    """

    precision: str
    samples: str
    outputs: tuple[OutputCost, ...]
    most: float | None = None
    layers: tuple[LayerCost, ...] = ()
    tried: int = 0
    quantized: int = 0

    @property
    def too_high(self) -> tuple[OutputCost, ...]:
        """Outputs whose cost exceeds the limit or is not finite."""
        return tuple(o for o in self.outputs if self.most is not None and not o.error <= self.most)

    def short(self) -> Iterator[str]:
        """Yields the cost of the worst output, in two words; nothing where no output was measured."""
        if self.outputs:
            worst = max(one.error if math.isfinite(one.error) else math.inf for one in self.outputs)
            yield f"costs {_percent(worst)}"

    def headline(self) -> str:
        """Returns the cost of the worst output, in one clause; "" where no output was measured."""
        if not self.outputs:
            return ""
        worst = max(self.outputs, key=lambda one: one.error if math.isfinite(one.error) else math.inf)
        allowed = f", --max-cost allows {self.most:g}" if worst in self.too_high else ""
        return f"{self.precision} changes {worst.output!r} by {_percent(worst.error)}{allowed}"

    def advice(self) -> str:
        """Returns the advice that would lower the cost; "" if it is low or no layer was tried."""
        flags = " ".join(f"--keep-fp32 {quote(one.node)}" for one in self.layers)
        return f"{flags} keeps the costliest layers in float32" if flags else ""

    def lines(self) -> Iterator[str]:
        """Yields the lines for the user, one for each output and one for the layers."""
        for one in self.outputs:
            flips = f"; another class is first in {one.flipped} of {one.rows} rows" if one.rows else ""
            over = f"; --max-cost allows {self.most:g}" if one in self.too_high else ""
            yield f"cost of {self.precision}: {one.output!r} changes by {one.error:.1e}{flips} (on {self.samples}){over}"
        if self.layers:
            told = ", ".join(f"{one.node!r} ({one.op_type}) {one.error:.1e}" for one in self.layers)
            yield f"costliest of {self.tried} layers tried alone, of {self.quantized}: {told}"


def _percent(share: float) -> str:
    """19 %, 0.04 %, 120 %"""
    if not math.isfinite(share):
        return "everything"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def cost_from_json(document: Mapping[str, Any]) -> PrecisionCost:
    """Reads the cost from a verdict's document, in which an infinite error is null."""
    outputs = [
        one | {"error": math.inf if one["error"] is None else one["error"]} for one in document["outputs"]
    ]
    return PrecisionCost(
        **{
            **document,
            "outputs": tuple(OutputCost(**one) for one in outputs),
            "layers": tuple(LayerCost(**one) for one in document["layers"]),
        }
    )
