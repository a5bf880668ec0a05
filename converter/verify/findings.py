"""Holds the findings of a comparison as data. Module `verdict_words` makes sentences of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

NOT_FINITE, INFINITE_WEIGHTS, NAN_GIVEN = "not finite", "infinite weights", "NaN given"
"""Kinds of findings: an output that is NaN or infinite everywhere, and what may make it so: weights of the model that are
infinite, or NaN in an input or a weight.
"""

ALWAYS_EMPTY = "always empty"
"""Kind of a finding: why no input fills an empty output."""


@dataclass(frozen=True)
class Finding:
    """One finding of a comparison.

    kind:    one of those that verdict_words has a sentence for.
    output:  the output that it is about; "" for the whole network. at: the place, as sizes of inputs; "" for the only one.
    figures: what the sentence names, in JSON's types; numbers may be infinite.
    """

    kind: str
    output: str = ""
    at: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns plain data, in which an infinite number or NaN is null."""
        return asdict(self) | {"figures": {name: _finite(value) for name, value in self.figures.items()}}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Finding:
        """Reads the data that `to_json` wrote, with infinity for null."""
        figures = {name: math.inf if value is None else value for name, value in document["figures"].items()}
        return Finding(**{**document, "figures": figures})


def finding(kind: str, output: str = "", at: str = "", **figures: Any) -> Finding:
    """Makes a finding with these figures."""
    return Finding(kind, output, at, figures)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
