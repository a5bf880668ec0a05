"""Computes the outputs that candidates are compared with: the original's, exact and with values rounded.

Each is computed once, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.progress import Progress, silent, steps_of
from trtsmith.converter.engine.bundle.origin import PrecisionSummary
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run_session
from trtsmith.converter.model.ort_kernels import holds_any
from trtsmith.converter.rewrite.precision.emulate import REDUCED, without_bfloat16
from trtsmith.converter.rewrite.precision.report import PrecisionReport
from trtsmith.converter.rewrite.rewrite import expand, has_plugin_nodes, lowered, stepped
from trtsmith.converter.verify.allowance import NO_LIMITS, QUANTIZED, Limits
from trtsmith.converter.verify.constant_outputs import (
    constant_outputs,
    outputs_behind_branches,
    random_outputs,
    unchanging_outputs,
)
from trtsmith.converter.verify.findings import Finding, finding
from trtsmith.converter.verify.meaning.selections import watched
from trtsmith.converter.verify.own_types import OwnTypes, widened
from trtsmith.converter.verify.reduced import Run, opened_in_types
from trtsmith.converter.verify.references import NO_REFERENCES, References
from trtsmith.converter.verify.rounding import rounded
from trtsmith.converter.verify.sets import NO_SOURCE, InputSet, InputSource
from trtsmith.importers.opdef import Arrays

Outputs = Sequence[Arrays]
"""Outputs by name, for each set of inputs."""


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of a candidate.

    precision: one of verify.rounding.PRECISIONS. exact: nodes that stay in float32 (verify.rounding.rounded).
    """

    precision: str = "fp32"
    exact: frozenset[str] | None = None

    @staticmethod
    def of(precision: str, report: PrecisionReport | PrecisionSummary | None) -> Arithmetic:
        """Returns the arithmetic of a graph in the precision. report: of the precision pass; None if none was requested."""
        return Arithmetic(
            precision, frozenset(kept.node for kept in report.kept) if report is not None else None
        )


class Original:
    """Runs the original model in onnxruntime, in one session, with the values that decide its selections.

    It computes in its own types: a value of float16 is rounded where the model says so, as an engine stores it.
    wide: in float32 but for its inputs and outputs, as a network for which a precision is asked is treated.
    """

    def __init__(
        self,
        model: Model,
        references: References = NO_REFERENCES,
        progress: Progress = silent,
        *,
        wide: bool = False,
    ) -> None:
        self.model, self.references, self.progress = model, references, progress
        self._wide = wide and holds_any(model.proto, REDUCED)
        self._last: tuple[Arrays, dict[str, Any]] | None = None

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """Returns the outputs for inputs of the model. Raises ConversionError if onnxruntime cannot run it.

        Those of the last inputs are kept: a candidate that is the model itself asks for them again.
        """
        if self._last is None or self._last[0] is not feeds:
            self._last = feeds, self._session(feeds)
        return self._last[1]

    def expected(self, feeds: Arrays) -> dict[str, Any]:
        """Returns the outputs of the user's function for the whole model, else of the model. Raises ConversionError."""
        given = self.references.outputs(self.model, feeds)
        return self.run(feeds) if given is None else given

    def release(self) -> None:
        """Closes the session, before an engine holds the weights a second time."""
        for name in ("_session", "_own_types"):
            self.__dict__.pop(name, None)

    @cached_property
    def constant(self) -> frozenset[str]:
        """Outputs that do not depend on input values."""
        return constant_outputs(self.model)

    @cached_property
    def random(self) -> dict[str, Finding]:
        """Outputs that depend on random numbers; by name, why they are not compared."""
        return random_outputs(self.model)

    @cached_property
    def watched(self) -> Model:
        """The model with the scores of its selections as further outputs."""
        return watched(self.model)

    def unheld(self, feeds: Arrays, outputs: Arrays) -> dict[str, Finding]:
        """Finds outputs that the model's own 16-bit types change beyond use; by name, why they are not compared. outputs:
        the model's.
        """
        names = {value.name for value in self.model.proto.graph.output}
        return self._own_types.unheld(feeds, {name: outputs[name] for name in outputs.keys() & names})

    @cached_property
    def narrow(self) -> bool:
        """Whether the model computes in 16-bit types."""
        return holds_any(self.model.proto, REDUCED) and holds_any(self.lowered.proto, REDUCED)

    @cached_property
    def _own_types(self) -> OwnTypes:
        return OwnTypes(self._expanded)

    @cached_property
    def lowered(self) -> Model:
        """The model to run, with plugin nodes for operators that onnxruntime lacks."""
        graph = lowered(self.watched)
        return widened(graph) if self._wide else graph

    @property
    def _expanded(self) -> Model:
        return expand(self.lowered) if has_plugin_nodes(self.lowered) else self.lowered

    @cached_property
    def _session(self) -> Run:
        steps_of(self.progress)("opening the original model in onnxruntime")
        return opened_in_types(self._expanded)


class Baseline:
    """The reference outputs for sets of inputs.

    original: the model, or a runner of it that is shared. source: where the inputs come from.
    expected: outputs to compare with instead of the original's. known: the original's own, where they were computed before.
    roundings: those with values rounded, by the grid (verify.rounding); given, no others are computed.
    """

    def __init__(
        self,
        original: Model | Original,
        sets: Sequence[InputSet],
        source: InputSource = NO_SOURCE,
        *,
        expected: Outputs | None = None,
        known: Outputs | None = None,
        roundings: Mapping[float, Outputs] | None = None,
        limits: Limits = NO_LIMITS,
        progress: Progress = silent,
    ) -> None:
        self.original = original if isinstance(original, Original) else Original(original)
        self.model, self.sets, self.source = self.original.model, sets, source
        self.expected, self.limits, self.progress = expected, limits, progress
        self._known, self._given = known, roundings
        self._rounded: dict[tuple[Arithmetic, float], Outputs | None] = {}

    @cached_property
    def plain(self) -> Outputs:
        """The original's own outputs. Raises ConversionError if onnxruntime cannot run it."""
        if self._known is not None:
            return self._known
        self.progress("running the original model in onnxruntime")
        return self._each(self.original.run)

    @property
    def wanted(self) -> Outputs:
        """The outputs to compare with. ConversionError as of `plain`."""
        return self.plain if self.expected is None else self.expected

    @property
    def generated(self) -> tuple[Finding, ...]:
        """Names and types of the inputs, if they were generated."""
        generation = self.source.generation
        if generation is None:
            return ()
        feeds = {spec.name: self.sets[0].feeds[spec.name] for spec in generation.specs}
        types = {name: f"{array.dtype}{list(array.shape)}".replace(" ", "") for name, array in feeds.items()}
        return (finding("generated", inputs=types),)

    def rounded(self, arithmetic: Arithmetic, grid: float = 1.0) -> Outputs | None:
        """Returns the original's outputs with values rounded as in the arithmetic; None if onnxruntime cannot run that."""
        if self._given is not None:
            return self._given.get(grid)
        if arithmetic.precision in QUANTIZED:
            return None
        key = arithmetic, grid
        if key not in self._rounded:
            try:
                self._rounded[key] = self._run_rounded(arithmetic, grid)
            except ConversionError:
                self._rounded[key] = None
        return self._rounded[key]

    def expecting(self, outputs: Outputs) -> Baseline:
        """Returns the baseline with other expected outputs. Computed results are kept."""
        other = copy(self)
        other.expected = outputs
        return other

    def held_to(self, plain: Outputs, rounded: Outputs, limits: Limits = NO_LIMITS) -> Baseline:
        """Returns the baseline with the outputs of a graph in 8 bits instead of the original's. rounded: in TF32."""
        held = copy(self)
        held.__dict__ |= {"doubts": self.doubts, "plain": plain}
        held._given, held.limits = {1.0: rounded}, limits
        return held

    @cached_property
    def unheld(self) -> Mapping[str, Finding]:
        """Outputs that the model's own 16-bit types change beyond use; by name, why they are not compared."""
        found: dict[str, Finding] = {}
        if not self.original.narrow:
            return found
        with suppress(ConversionError):
            for one, plain in zip(self.sets, self.plain, strict=True):
                found |= self.original.unheld(one.feeds, plain)
        given = {"given": self.expected is not None}
        return {name: replace(why, figures={**why.figures, **given}) for name, why in found.items()}

    @cached_property
    def doubts(self) -> Mapping[str, Finding]:
        """Outputs whose agreement proves little; none if the original does not run."""
        if self.source.fixed is None:
            return {}
        # of further inputs none is made where the model has no branch
        feeds = chain((one.feeds for one in self.sets), self.source.ends([one.at for one in self.sets]))
        found = outputs_behind_branches(self.model, self.source.fixed, feeds)
        if self.source.generation is None:
            return found
        first = self.sets[0]
        try:
            outputs = self.wanted[0]
        except ConversionError:
            return found
        end = first.at or "opt"
        return found | unchanging_outputs(
            self.source.generation, end, first.feeds, outputs, self.original.expected
        )

    def _run_rounded(self, arithmetic: Arithmetic, grid: float) -> Outputs:
        self.progress(f"running the original model with its values rounded to {arithmetic.precision}")
        hidden = self._steps is not self.original.lowered
        found = self._run_graph(
            rounded(
                self._steps,
                arithmetic.precision,
                exact=arithmetic.exact,
                feeds=self.sets[0].feeds if self.sets else None,
                grid=grid,
                fine=hidden,
            )
        )
        if not hidden:
            return found
        # what rounding changes, from the steps themselves: an error of theirs is none of the engine's
        return [
            {name: _moved(plain[name], exact[name], made[name]) for name in made}
            for plain, exact, made in zip(self.plain, self._exact_steps, found, strict=True)
        ]

    @cached_property
    def _steps(self) -> Model:
        return stepped(self.original.lowered)

    @cached_property
    def _exact_steps(self) -> Outputs:
        return self._run_graph(self._steps)

    def _run_graph(self, graph: Model) -> Outputs:
        graph = expand(graph)
        if self.original.narrow:  # else only Casts that round are of such a type
            return self._each(opened_in_types(graph, optimise=False, in_order=True))
        graph = without_bfloat16(graph)
        session = open_session(graph, optimise=False, in_order=True)
        return self._each(lambda feeds: run_session(session, graph, feeds))

    def _each(self, run: Callable[[Arrays], Arrays]) -> Outputs:
        outputs = []
        for number, one in enumerate(self.sets, 1):
            if len(self.sets) > 1:
                steps_of(self.progress)(f"running the model in onnxruntime: set {number} of {len(self.sets)}")
            outputs.append(run(one.feeds))
        return outputs


def _moved(plain: np.ndarray, exact: np.ndarray, made: np.ndarray) -> np.ndarray:
    """An output changed by as much as rounding changes it from `exact` to `made`."""
    if plain.dtype.kind != "f" or not plain.shape == exact.shape == made.shape:
        return made
    with np.errstate(invalid="ignore"):  # infinities on both sides
        return np.asarray(np.where(made == exact, plain, plain + (made - exact)), plain.dtype)
