"""Judges the model's own outputs in a search: what they are compared with, and how closely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trtsmith.converter.locate.executors.executor import Arrays, run_in_types
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import Rewritten, reference
from trtsmith.converter.rewrite.types import to_model
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.noise import Noise
from trtsmith.converter.verify.randomness import random_outputs
from trtsmith.converter.verify.tolerances import Tolerances


@dataclass(frozen=True, eq=False)
class OutputJudge:
    """feeds: of all inputs of the original. tolerances, allowed and noise: as trtsmith.converter.verify.compare has them."""

    original: Model
    feeds: Arrays
    tolerances: Tolerances | None
    allowed: Mapping[str, float] | None
    noise: Mapping[str, Noise] | None = None

    @cached_property
    def _random(self) -> frozenset[str]:
        return frozenset(random_outputs(self.original))

    @cached_property
    def _wanted(self) -> dict[str, np.ndarray]:
        return run_in_types(reference(self.original), self.feeds)

    def compare(self, expected: Arrays, actual: Arrays) -> tuple[Comparison, ...]:
        """All outputs but those that random numbers decide, both in the same types."""
        return compare(self.comparable(expected), actual, self.tolerances, self.allowed, noise=self.noise)

    def comparable(self, outputs: Arrays) -> dict[str, np.ndarray]:
        """Those that random numbers do not decide."""
        return {name: value for name, value in outputs.items() if name not in self._random}

    def disagreeing(self, expected: Arrays, actual: Arrays) -> tuple[Comparison, ...]:
        return tuple(c for c in self.compare(expected, actual) if not c.agrees)

    def off_the_original(self, outputs: Arrays, of: Rewritten) -> tuple[Comparison, ...]:
        """The outputs of a graph, in its own types, that disagree with the original's in onnxruntime."""
        return self.disagreeing(self._wanted, to_model(outputs, of.io_types))
