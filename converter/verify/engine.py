"""Compares the outputs of the engine on a GPU with the original model in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from trtsmith.converter.engine.runtime.run_in_child import run_engine
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run_session
from trtsmith.converter.model.progress import steps_of
from trtsmith.converter.rewrite.rewrite import for_onnxruntime, lowered, reference
from trtsmith.converter.verify.allowance import QUANTIZED, Allowance, in_words
from trtsmith.converter.verify.compare import Arrays, Comparison
from trtsmith.converter.verify.constant_outputs import constant_outputs, random_outputs
from trtsmith.converter.verify.meaning.compared_outputs import compared
from trtsmith.converter.verify.meaning.selections import watched
from trtsmith.converter.verify.rounding import GRIDS, rounded
from trtsmith.converter.verify.sensitivity import with_own_definitions, with_sensitivity
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import DISAGREE, Verdict, judge, not_comparable

Outputs = list[dict[str, np.ndarray]]
Progress = Callable[[str], None]


def verify_engine(
    model: Model,
    request: RunRequest,
    sets: Sequence[InputSet],
    inputs: str,
    *,
    engine_inputs: Collection[str],
    precision: str = "tf32",
    tolerances: Tolerances | None = None,
    expected: Sequence[Arrays] | None = None,
    wanted_by: Callable[[Arrays], Arrays] | None = None,
    plain: Outputs | None = None,
    narrow: Outputs | None = None,
    at_least: Mapping[str, float] | None = None,
    changes: Mapping[str, np.ndarray] | None = None,
    excluded: Mapping[str, str] | None = None,
    doubtful: Mapping[str, str] | None = None,
    exact: Collection[str] | None = None,
    meanings: tuple[str, ...] = (),
    keep: Callable[[Sequence[Arrays]], None] | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """The verdict on an engine's outputs for every set of inputs.

    engine_inputs: those of the model's inputs that the engine has.
    precision:  of the engine's arithmetic (verify.rounding.PRECISIONS); by it, what `tolerances` leaves open is
        allowed (trtsmith.converter.verify.allowance).
    expected:   outputs to compare each set with, instead of onnxruntime's. wanted_by: computes them from each set.
    plain:      the original's outputs in onnxruntime for each set, where they are known already. narrow: what their being
        rounded to the precision makes of them, if that is known with them: then onnxruntime is not run.
    at_least:   by output, what is allowed in any case. changes: the same for each element (verify.allowance).
    excluded:   outputs that cannot be compared; by name, why. doubtful: those of which agreement proves nothing.
    exact:      nodes that the engine computes in float32 (verify.rounding.rounded).
    keep:       is given the engine's outputs for every set.
    UsageError: the engine cannot be run (trtsmith.converter.engine.runtime.run_in_child).
    """
    say = progress or (lambda text: None)
    own = plain is None or narrow is None
    feeds = [{n: v for n, v in one.feeds.items() if n in engine_inputs} for one in sets]
    try:
        if own:
            plain, narrow = onnxruntime_outputs(watched(model), sets, precision, say, plain, exact)
    except ConversionError as error:
        if expected is None and wanted_by is None:
            if keep is not None:
                keep(run_engine(request, feeds, progress).outputs)
            return not_comparable("original", error, inputs, "nothing")
        plain = narrow = None
    if wanted_by is not None:
        expected = [wanted_by(one.feeds) for one in sets]
    say("running the engine")
    result = run_engine(request, feeds, progress)
    if keep is not None:
        keep(result.outputs)
    verdict = judge_outputs(
        model,
        sets,
        inputs,
        expected if expected is not None else plain,
        plain,
        narrow,
        result.outputs,
        precision,
        tolerances,
        at_least,
        changes,
        excluded,
        doubtful,
        None if own else (),
        exact,
        say,
    )
    told = in_words(precision, narrow is not None)
    verdict = replace(verdict, meanings=meanings, precision=told, warnings=result.warnings)
    if expected is not None or plain is None:
        return verdict
    if verdict.status == DISAGREE:
        say("measuring how much the original's outputs change with the last bits of its inputs")
        original = reference(watched(model))
        session = open_session(original)
        verdict = with_sensitivity(verdict, sets, plain, partial(run_session, session, original))
    return with_own_definitions(model, verdict)


def allowance_elsewhere(
    model: Model,
    one: InputSet,
    precision: str,
    tolerances: Tolerances | None,
    *,
    expected: Sequence[Arrays] | None = None,
    plain: Outputs | None = None,
    narrow: Outputs | None = None,
    at_least: Mapping[str, float] | None = None,
    changes: Mapping[str, np.ndarray] | None = None,
    excluded: Mapping[str, str] | None = None,
    exact: Collection[str] | None = None,
    progress: Progress,
) -> tuple[Arrays, Allowance]:
    """The outputs that an engine on another machine is to have, and by how much each may be off; as of `verify_engine`.

    Rounding is drawn several ways at once: there nobody can draw it again where an output disagrees.
    """
    draws: list[Outputs] = []
    if narrow is None:
        told = (precision, progress)
        with suppress(ConversionError):  # outputs of the user's may be all that there is
            plain, narrow = onnxruntime_outputs(watched(model), (one,), *told, plain, exact)
        draws = other_roundings(watched(model), (one,), *told, exact) if narrow else []
    (wanted,) = expected or plain or ({},)
    measured, found = compared(
        model,
        wanted,
        wanted,
        plain[0] if plain else None,
        narrow[0] if narrow else None,
        precision,
        tolerances,
        "",
        at_least,
        changes,
        [outputs[0] for outputs in draws],
    )
    moved = {**measured.moved, **(excluded or {}), **random_outputs(model)}
    return {one.output: wanted[one.output] for one in found}, replace(measured, moved=moved)


def judge_outputs(
    model: Model,
    sets: Sequence[InputSet],
    inputs: str,
    expected: Sequence[Arrays] | None,
    plain: Outputs | None,
    narrow: Outputs | None,
    outputs: Sequence[Arrays],
    precision: str,
    tolerances: Tolerances | None = None,
    at_least: Mapping[str, float] | None = None,
    changes: Mapping[str, np.ndarray] | None = None,
    excluded: Mapping[str, str] | None = None,
    unproven: Mapping[str, str] | None = None,
    draws: Sequence[Outputs] | None = None,
    exact: Collection[str] | None = None,
    progress: Progress = lambda text: None,
) -> Verdict:
    """The verdict on an engine's outputs for every set of inputs; arguments as of `verify_engine`.

    draws: of `other_roundings`; None: they are drawn here, from the inputs, where an output disagrees without them.
    """
    if draws is None:
        judged = partial(
            judge_outputs,
            *(model, sets, inputs, expected, plain, narrow, outputs, precision),
            *(tolerances, at_least, changes, excluded, unproven),
        )
        verdict = judged(())
        if verdict.status != DISAGREE or narrow is None:
            return verdict
        return judged(other_roundings(watched(model), sets, precision, progress, exact))
    left = dict(excluded or {}) | random_outputs(model)
    doubtful = dict(unproven or {})
    amplified: dict[str, float] = {}
    comparisons: list[Comparison] = []
    for index, (one, actual) in enumerate(zip(sets, outputs, strict=True)):
        wanted = expected[index] if expected is not None else {}
        measured, found = compared(
            model,
            wanted,
            actual,
            plain[index] if plain is not None else None,
            narrow[index] if narrow is not None else None,
            precision,
            tolerances,
            one.at,
            at_least,
            changes,
            [outputs[index] for outputs in draws],
        )
        left = measured.excluded(tolerances) | left
        doubtful |= measured.unproven(tolerances)
        amplified |= measured.amplified
        comparisons += found
    return judge(
        tuple(c for c in comparisons if c.output not in left),
        inputs,
        engine_run=True,
        excluded=left,
        doubtful=doubtful,
        tolerances=tolerances,
        constant=constant_outputs(model),
        amplified=amplified,
    )


def onnxruntime_outputs(
    model: Model,
    sets: Sequence[InputSet],
    precision: str,
    progress: Progress,
    plain: Outputs | None = None,
    exact: Collection[str] | None = None,
) -> tuple[Outputs, Outputs | None]:
    """The original's outputs for every set, as it is and with its values rounded to the precision.

    plain: the former, where they are known already. exact: nodes in float32 (verify.rounding.rounded).
    The latter are None for 8 bits, and where onnxruntime does not run them.
    ConversionError: onnxruntime does not run the model.
    """
    if plain is None:
        progress("running the original model in onnxruntime")
        plain = _run(reference(model), sets, progress)
    if precision in QUANTIZED:
        return plain, None
    progress(f"running it with its values rounded to {precision}")
    try:
        return plain, _run_rounded(model, sets, precision, progress, exact)
    except ConversionError:
        return plain, None


def other_roundings(
    model: Model,
    sets: Sequence[InputSet],
    precision: str,
    progress: Progress,
    exact: Collection[str] | None = None,
) -> list[Outputs]:
    """The outputs for every set with values rounded to the precision, on each of GRIDS; none where onnxruntime refuses it.

    Where one run tells little of what rounding does, at edges and near thresholds, several tell more.
    """
    try:
        return [_run_rounded(model, sets, precision, progress, exact, grid) for grid in GRIDS]
    except ConversionError:
        return []


def _run_rounded(
    model: Model,
    sets: Sequence[InputSet],
    precision: str,
    progress: Progress,
    exact: Collection[str] | None,
    grid: float = 1.0,
) -> Outputs:
    feeds = sets[0].feeds if sets else None
    graph = for_onnxruntime(rounded(lowered(model), precision, exact=exact, feeds=feeds, grid=grid))
    return _run(graph, sets, progress, as_it_is=True)


def _run(
    model: Model,
    sets: Sequence[InputSet],
    progress: Progress,
    *,
    as_it_is: bool = False,
) -> Outputs:
    """The outputs of every set, from one session. as_it_is: run the nodes unoptimised, in their order."""
    session = open_session(model, optimise=False if as_it_is else None, in_order=as_it_is)
    outputs = []
    for number, one in enumerate(sets, 1):
        if len(sets) > 1:
            steps_of(progress)(f"running the model in onnxruntime: set {number} of {len(sets)}")
        outputs.append(run_session(session, model, one.feeds))
    return outputs
