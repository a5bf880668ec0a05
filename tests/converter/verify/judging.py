"""Judges graphs and engines in one call, for the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.types import IoType
from trtsmith.converter.verify.baseline import Arithmetic, Baseline
from trtsmith.converter.verify.candidate_judge import judge
from trtsmith.converter.verify.candidates import built_engine, reduced_graph, rewritten_graph
from trtsmith.converter.verify.sets import InputSet, InputSource
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import Verdict

Arrays = Mapping[str, np.ndarray]


def baseline_of(model: Model, feeds: Arrays, expected: Arrays | None = None) -> Baseline:
    """For one set of inputs."""
    return Baseline(
        model, (InputSet("", feeds),), InputSource("mine"), expected=None if expected is None else [expected]
    )


def judged_graph(
    original: Model,
    rewritten: Model,
    feeds: Arrays,
    expected: Arrays | None = None,
    io_types: Sequence[IoType] = (),
) -> Verdict:
    """The verdict on the rewritten graph in float32."""
    return judge(baseline_of(original, feeds, expected), rewritten_graph(rewritten, io_types))


def judged_in(
    precision: str,
    original: Model,
    rewritten: Model,
    feeds: Arrays,
    tolerances: Tolerances | None = None,
    expected: Arrays | None = None,
    io_types: Sequence[IoType] = (),
    exact: Sequence[str] | None = None,
) -> Verdict:
    """The verdict on the rewritten graph in a reduced precision."""
    arithmetic = Arithmetic(precision, None if exact is None else frozenset(exact))
    candidate = reduced_graph(rewritten, io_types, arithmetic)
    return judge(baseline_of(original, feeds, expected), candidate, tolerances)


def judged_engine_of(
    model: Model,
    request: RunRequest,
    sets: Sequence[InputSet],
    precision: str = "tf32",
    *,
    exact: Sequence[str] | None = None,
    tolerances: Tolerances | None = None,
    **known: Any,
) -> Verdict:
    """The verdict on an engine that has all inputs of the model. known: of the baseline."""
    arithmetic = Arithmetic(precision, None if exact is None else frozenset(exact))
    engine = built_engine(request, frozenset(sets[0].feeds), arithmetic, lambda text: None)
    return judge(Baseline(model, sets, InputSource("mine"), **known), engine, tolerances)
