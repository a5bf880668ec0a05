"""Holds the findings of a comparison as data. Module `verdict_words` makes sentences of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

NOT_FINITE, INFINITE_WEIGHTS = "not finite", "infinite weights"
"""Kinds of findings: an output that is NaN or infinite everywhere, and the model's own weights that may make it so."""


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
