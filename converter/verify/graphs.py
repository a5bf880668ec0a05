"""Compares the original model with the engine's graph, both in onnxruntime. Needs no GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import numpy as np

from trtsmith.converter.graph.infer import infer_shapes, value_shapes
from trtsmith.converter.model.errors import ConversionError, TrtsmithError, UsageError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import open_session, run, run_session
from trtsmith.converter.model.progress import Progress, steps_of
from trtsmith.converter.model.shapes import ShapeRange
from trtsmith.converter.rewrite.profile.profile_ranges import ranges_of, with_fixed_sizes
from trtsmith.converter.rewrite.rewrite import Rewritten, for_onnxruntime, lowered, reference, runnable
from trtsmith.converter.rewrite.types import IoType, to_engine, to_model
from trtsmith.converter.verify.allowance import Allowance, allowance
from trtsmith.converter.verify.compare import Arrays, Comparison, compare
from trtsmith.converter.verify.constant_outputs import constant_outputs, random_outputs
from trtsmith.converter.verify.meaning.compared_outputs import compared
from trtsmith.converter.verify.meaning.selections import watched
from trtsmith.converter.verify.references import References
from trtsmith.converter.verify.rounding import GRIDS, rounded
from trtsmith.converter.verify.sets import Generation
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import ENDS, OtherSizes, Verdict, judge, not_comparable


def verify_graphs(
    original: Model,
    rewritten: Model,
    feeds: Arrays,
    inputs: str,
    tolerances: Tolerances | None = None,
    expected: Arrays | None = None,
    io_types: Sequence[IoType] = (),
    *,
    plain: Arrays | None = None,
    doubtful: Mapping[str, str] | None = None,
) -> Verdict:
    """The original against the TensorRT graph, both in onnxruntime on the CPU. The engine is not run.

    feeds: of all inputs of the original; those that were frozen are none of the rewritten graph's.
    expected: outputs to compare with instead of the original's, from the framework that the model comes from.

    Custom nodes that onnxruntime has not are expanded in the original, plugin nodes in the rewritten graph, from the
    fields that TensorRT will get. io_types: inputs and outputs that have another type in the rewritten graph.
    plain: the own outputs of the original, where they are known. doubtful: outputs whose agreement proves nothing, and why.
    Outputs that random numbers decide are left out, and named.
    """
    given = expected is not None
    if expected is None:
        try:
            expected = plain = run(reference(watched(original)), feeds)
        except ConversionError as error:
            return not_comparable("original", error, inputs, "nothing")
    try:
        inputs_left = {value.name for value in rewritten.proto.graph.input}
        left = to_engine({n: v for n, v in feeds.items() if n in inputs_left}, io_types)
        actual = to_model(run(runnable(rewritten), left), io_types)
    except ConversionError as error:
        return not_comparable("rewritten graph", error, inputs, "nothing" if given else "original")
    known, found = compared_graphs(original, feeds, expected, actual, tolerances, plain=plain)
    return judged_graphs(original, known, found, inputs, tolerances, doubtful)


def judged_graphs(
    original: Model,
    known: Allowance,
    found: Sequence[Comparison],
    inputs: str,
    tolerances: Tolerances | None,
    doubtful: Mapping[str, str] | None,
) -> Verdict:
    """The verdict on comparisons of a graph with the original, without outputs that rounding or random numbers decide."""
    excluded = {**known.excluded(tolerances), **random_outputs(original)}
    return judge(
        tuple(c for c in found if c.output not in excluded),
        inputs,
        engine_run=False,
        excluded=excluded,
        doubtful={**(doubtful or {}), **known.unproven(tolerances)},
        tolerances=tolerances,
        constant=constant_outputs(original),
        amplified=known.amplified,
    )


def compared_graphs(
    original: Model,
    feeds: Arrays,
    expected: Arrays,
    actual: Arrays,
    tolerances: Tolerances | None,
    at: str = "",
    plain: Arrays | None = None,
) -> tuple[Allowance, tuple[Comparison, ...]]:
    """The comparisons; what rounding changes is measured where an element or a slice is off by more than float32 usually.

    plain: the original's own outputs. None: it is run for them, as what is expected may be another's. The allowance leaves
    out no output that agrees without a measurement.
    """
    usual, found = compared(original, expected, actual, expected, None, "fp32", tolerances, at)
    off = {c.output for c in found if c.beyond or c.slice or not c.agrees}
    if not off:
        return usual, found
    try:
        own = run(reference(watched(original)), feeds) if plain is None else plain
        source = lowered(watched(original))
        draws = [_rounded_outputs(source, feeds)]
        judged = partial(
            compared, original, expected, actual, own, precision="fp32", tolerances=tolerances, at=at
        )
        known, found = judged(draws[0])
        if not all(c.agrees for c in found if c.output not in known.excluded(tolerances)):
            draws += [_rounded_outputs(source, feeds, grid) for grid in GRIDS]
            known, found = judged(draws[0], draws=draws[1:])
    except ConversionError:  # it is the norm that decides
        wanted = {c.output: expected[c.output] for c in found}
        known = allowance(wanted, (), "fp32", original.proto)
        return known, compare(wanted, actual, tolerances, known.allowed, at)
    return known.only(off), found


def _rounded_outputs(model: Model, feeds: Arrays, grid: float = 1.0) -> Arrays:
    return run(for_onnxruntime(rounded(model, "fp32", grid=grid)), feeds, optimise=False, in_order=True)


_ASSERTION = re.compile(r"^/\S+:\d+ .*? was false\. ")
"""Where onnxruntime's own code found a fault."""

MOST_BYTES = 2 << 30
"""Of all values of a graph: an end of a profile where there are more is not compared."""


Place = tuple[Generation, str]
"""Where inputs are made up: a profile, and one of its ends."""


def ends_of(generation: Generation) -> dict[str, Place]:
    """The smallest and largest sizes of a profile, where they are others than its usual ones."""
    ends = [end for end in ("min", "max") if generation.numbers(end) != generation.numbers("opt")]
    return {end: (generation, end) for end in ends}


def graphs_at(
    places: Mapping[str, Place],
    rewritten: Rewritten,
    references: References,
    tolerances: Tolerances | None,
    progress: Progress,
) -> OtherSizes:
    """The original against the rewritten graph, in float32, at sizes by what comparisons call them.

    Neither graph is optimised: each runs once or twice, and of a quantised network the optimiser makes another.
    """
    generation, _ = next(iter(places.values()))
    step = steps_of(progress)
    step("opening both graphs for other sizes")
    graph, random = runnable(rewritten.model), random_outputs(generation.model)
    left = {value.name for value in graph.proto.graph.input}
    try:
        original = computing(generation.model, references, optimise=False)
        session = open_session(graph, optimise=False)
    except ConversionError as error:
        return OtherSizes(unknown={"": f"no other sizes were tried: {error.problems[0].what}"})
    failed: dict[str, str] = {}
    unknown: dict[str, str] = {}
    found: list[Comparison] = []
    sets: dict[str, tuple[Arrays, Arrays]] = {}
    for at, (generation, end) in places.items():
        where = size_in_words(generation, end, at)
        step(f"comparing at {where}")
        size = _bytes(generation, end)
        if size > MOST_BYTES:
            most = f"more than {MOST_BYTES / 2**30:g} GiB"
            unknown[at] = f"{where}, was not compared: its values take {size / 2**30:.1f} GiB, {most}"
            continue
        try:
            feeds = generation.at(end).arrays
        except UsageError as error:
            unknown[at] = f"{where}, was not compared: {error.problems[0].what}"
            continue
        which = "original"
        try:
            expected = original(feeds)
            which = "rewritten graph"
            given = to_engine({n: v for n, v in feeds.items() if n in left}, rewritten.io_types)
            actual = to_model(run_session(session, graph, given), rewritten.io_types)
        except TrtsmithError as error:
            failed[at] = f"at {where}, {_failure(which, error)}"
            continue
        wanted = {n: v for n, v in expected.items() if n not in random}
        own = expected if references.whole is None else None
        known, there = compared_graphs(generation.model, feeds, wanted, actual, tolerances, at, own)
        unproven = {**known.excluded(tolerances), **known.unproven(tolerances)}
        there = tuple(one for one in there if one.output not in unproven)
        if unproven:
            unknown[at] = f"at {where}, {'; '.join(unproven.values())}"
        if all(one.agrees for one in there):
            sets[at] = feeds, expected
        found += there
    return OtherSizes("", tuple(found), failed, "", unknown, sets)


def size_in_words(generation: Generation, end: str, at: str) -> str:
    of = "" if at == end else f" of {at}"
    return f"the {ENDS[end]} size{of}, {generation.words(end)}"


def runs_at(places: Mapping[str, Place], failed: Collection[str], unknown: Collection[str]) -> str:
    """What helps where an end of the profile, or a further profile, fails."""
    generation, _ = next(iter(places.values()))
    if "min" not in places and "max" not in places:
        return f"leave out {' and '.join(failed)}, or export the model anew"
    low, high = ("opt" if end in failed or end in unknown else end for end in ("min", "max"))
    return f"narrow the profile to what runs ({generation.flags(low, high)}), or export the model anew"


def computing(
    model: Model, references: References, *, optimise: bool = True
) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """What computes a model's outputs: the user's function for all of it, or onnxruntime. ConversionError if neither can."""
    if references.whole is not None:
        return lambda feeds: references.outputs(model, feeds) or {}
    original = reference(watched(model))
    return partial(run_session, open_session(original, optimise=optimise), original)


def _failure(which: str, error: TrtsmithError) -> str:
    problem = error.problems[0]
    node = problem.where.partition(": node ")[2].removeprefix("'' ")
    what = _ASSERTION.sub("", problem.what.rpartition("Status Message: ")[2]).rstrip(".")
    return f"the {which} fails{f' at node {node}' if node else ''}: {what}"


def _bytes(generation: Generation, end: str) -> int:
    """Of all values at this end, in float32, as far as their sizes can be inferred."""
    fixed = ranges_of([{n: ShapeRange(*(getattr(r, end),) * 3) for n, r in generation.sizes.items()}])
    proto = generation.model.copied()
    proto.graph.ClearField("value_info")  # an exporter's may be those of its example
    graph = infer_shapes(with_fixed_sizes(lowered(generation.model.with_proto(proto)), fixed)).proto
    constants = {tensor.name for tensor in graph.graph.initializer}
    shapes = value_shapes(graph).items()
    return 4 * sum(math.prod(size or 1 for size in shape) for name, shape in shapes if name not in constants)
