"""Compares a candidate with the original at other sizes than the usual ones: ends of a profile, and further profiles."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from trtsmith.converter.base.errors import TrtsmithError, UsageError
from trtsmith.converter.base.options.shapes import ShapeRange, unequal_sizes, with_shared_ranges
from trtsmith.converter.base.progress import steps_of
from trtsmith.converter.graph.infer import infer_shapes, value_shapes
from trtsmith.converter.rewrite.profile.profile_ranges import ranges_of, with_fixed_sizes
from trtsmith.converter.rewrite.rewrite import lowered
from trtsmith.converter.verify.baseline import Baseline, Original
from trtsmith.converter.verify.candidate_judge import Candidate, compare_outputs
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.findings import Finding, finding
from trtsmith.converter.verify.sets import Generation, InputSet
from trtsmith.converter.verify.tolerances import Tolerances
from trtsmith.converter.verify.verdict import ENDS, OtherSizes

_ASSERTION = re.compile(r"^/\S+:\d+ .*? was false\. ")
"""Where onnxruntime's own code found a fault."""

MOST_BYTES = 2 << 30
"""Of all values of a graph: an end of a profile where there are more is not compared."""


Place = tuple[Generation, str]
"""Where inputs are made up: a profile, and one of its ends."""


def ends_of(generation: Generation) -> dict[str, Place]:
    """Returns the smallest and largest sizes of a profile that differ from its usual ones."""
    ends = [end for end in ("min", "max") if generation.numbers(end) != generation.numbers("opt")]
    return {end: (generation, end) for end in ends}


def compared_at(
    places: Mapping[str, Place], original: Original, candidate: Candidate, tolerances: Tolerances | None
) -> OtherSizes:
    """Compares the original with the rewritten graph, in float32, at these sizes. Keys are the names in comparisons."""
    failed: dict[str, Finding] = {}
    unknown: dict[str, list[Finding]] = {}
    found: list[Comparison] = []
    baselines: dict[str, Baseline] = {}
    for at, (generation, end) in places.items():
        where = size_in_words(generation, end, at)
        steps_of(original.progress)(f"comparing at {where}")
        size = _bytes(generation, end)
        if size > MOST_BYTES:
            what = f"its values take {size / 2**30:.1f} GiB, more than {MOST_BYTES / 2**30:g} GiB"
            unknown[at] = [finding("size not compared", at=at, where=where, what=what)]
            continue
        try:
            feeds = generation.at(end).arrays
        except UsageError as error:
            unknown[at] = [finding("size not compared", at=at, where=where, what=error.problems[0].what)]
            continue
        which = "original"
        try:
            given = original.references.outputs(original.model, feeds)
            expected = None if given is None else [given]
            baseline = Baseline(original, (InputSet(at, feeds),), expected=expected)
            _ = baseline.wanted
            which = candidate.name
            judged = compare_outputs(
                baseline, candidate.arithmetic, candidate.run([feeds]).outputs, tolerances
            )
        except TrtsmithError as error:
            failed[at] = finding("size failed", at=at, where=where, what=_failure(which, error))
            continue
        unproven = {**judged.left(tolerances), **judged.unproven(tolerances)}
        left = {**unproven, **original.random}
        there = tuple(one for one in judged.comparisons if one.output not in left)
        if unproven:
            unknown[at] = [replace(one, at=where) for one in unproven.values()]
        if all(one.agrees for one in there):
            baselines[at] = baseline
        found += there
    return OtherSizes(tuple(found), failed, unknown, baselines=baselines)


def size_in_words(generation: Generation, end: str, at: str) -> str:
    of = "" if at == end else f" of {at}"
    return f"the {ENDS[end]} size{of}, {generation.words(end)}"


def runs_at(places: Mapping[str, Place], sizes: OtherSizes) -> Finding:
    """Advises what helps where an end of the profile, or a further profile, fails."""
    generation, _ = next(iter(places.values()))
    if "min" not in places and "max" not in places:
        return finding("profiles that fail", profiles=list(sizes.failed))
    bad = {*sizes.failed, *sizes.unknown}
    apart = {end: told for end in bad for *_, told in unequal_sizes(generation.specs, generation.shapes(end))}
    low, high = ("opt" if end in bad - apart.keys() else end for end in ("min", "max"))
    shared = replace(generation, sizes=with_shared_ranges(generation.specs, generation.sizes))
    if apart:
        end, told = next(iter(apart.items()))
        return finding("sizes apart", told=f"{told}, at the {ENDS[end]} size", flags=shared.flags(low, high))
    return finding("runs at", flags=generation.flags(low, high))


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
