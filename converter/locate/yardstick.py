"""Measures in onnxruntime what rounding does to a model's outputs, and tells whether that explains how far they are off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from trtsmith.converter.locate.executors.executor import Arrays, Onnxruntime
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.allowance import FACTOR
from trtsmith.converter.verify.compare import Comparison, compare
from trtsmith.converter.verify.noise import Noise
from trtsmith.converter.verify.sensitivity import SHAKEN, most_moved

EXPLAINED = 5.0
"""Rounding explains errors up to so many times what outputs may differ by. Of networks that were run on an H200, those in
which nothing but rounding was found were off by 1.1 to 3.5 times that, those that were computed wrongly by 25 and more."""


@dataclass(frozen=True, eq=False)
class Yardstick:
    """model, feeds: the graph that is searched. expected: its outputs in onnxruntime, those that can be compared.

    allowed: what outputs may differ by (trtsmith.converter.verify.allowance): the ratio of norms, or the share of whole
        numbers. Outputs that are not in it are those that rounding decides. None: it was not measured.
    least: what float outputs may differ by then. noise: what rounding does to the elements of each, where it was measured.
    """

    model: Model
    feeds: Arrays
    expected: Arrays
    allowed: Mapping[str, float] | None
    least: float
    noise: Mapping[str, Noise] = field(default_factory=dict)

    def compare(self, expected: Arrays, actual: Arrays) -> tuple[Comparison, ...]:
        """Outputs that can be told, which agree where rounding explains what they differ by."""
        found = _compared(self._measured, expected, actual, self._explained)
        return found if all(c.agrees for c in found) else _compared(self._with_growth, expected, actual)

    def beyond(self, actual: Arrays) -> tuple[Comparison, ...]:
        """Outputs that are further off than rounding explains."""
        return tuple(c for c in self.compare(self.expected, actual) if not c.agrees)

    def ill_conditioned(self, actual: Arrays) -> dict[str, float]:
        """Outputs whose error rounding explains only because it grows: by name, what SHAKEN inputs change of them."""
        found = _compared(self._measured, self.expected, actual, self._explained)
        far = [c.output for c in found if not c.agrees]
        return {name: self.moved[name] for name in far if name not in {c.output for c in self.beyond(actual)}}

    @cached_property
    def moved(self) -> dict[str, float]:
        """By output, the most that float inputs which are SHAKEN change of it; infinity where its shape changes."""
        return most_moved(self.expected, self.feeds, lambda feeds: Onnxruntime().execute(self.model, feeds))

    @cached_property
    def _measured(self) -> dict[str, float]:
        """What each output that can be told may differ by."""
        if not self.allowed:
            floats = {name for name, array in self.expected.items() if array.dtype.kind not in "iub"}
            return {name: self.least if name in floats else 0.0 for name in self.expected}
        return {name: self.allowed[name] for name in self.expected if name in self.allowed}

    @cached_property
    def _explained(self) -> dict[str, Noise]:
        """The noise of which rounding explains all."""
        return {name: noise.times(EXPLAINED) for name, noise in self.noise.items()}

    @cached_property
    def _with_growth(self) -> dict[str, float]:
        """The same, where rounding may grow as what the inputs are moved by."""
        finite = {name: known for name, known in self._measured.items() if np.isfinite(self.moved[name])}
        return {name: max(known, FACTOR * self.moved[name]) for name, known in finite.items()}


def _compared(
    allowed: Mapping[str, float], expected: Arrays, actual: Arrays, noise: Mapping[str, Noise] | None = None
) -> tuple[Comparison, ...]:
    told = {name: array for name, array in expected.items() if name in allowed}
    return compare(told, actual, None, {name: EXPLAINED * allowed[name] for name in told}, noise=noise)


def told_growth(moved: Mapping[str, float]) -> tuple[str, ...]:
    """Advice where an output is ill-conditioned, one sentence each. moved: as Yardstick.ill_conditioned has it."""
    return tuple(
        f"try other inputs (--inputs): for these the network is ill-conditioned; moving them by {SHAKEN:.0e} of "
        f"themselves, as rounding in float32 does, changes {name!r} by {change:.0%} in onnxruntime, too"
        for name, change in moved.items()
    )
