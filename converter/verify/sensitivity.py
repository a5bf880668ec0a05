"""Adds to a verdict what its reference rests on, and whether the rounding of inputs alone explains a difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from trtsmith.converter.base.errors import ConversionError, TrtsmithError
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort_kernels import quantised
from trtsmith.converter.operators.package_files import computed_in
from trtsmith.converter.rewrite.rewrite import defined_here
from trtsmith.converter.verify.allowance import changed_by
from trtsmith.converter.verify.compare import Comparison
from trtsmith.converter.verify.expected_cause import cause_of
from trtsmith.converter.verify.findings import finding
from trtsmith.converter.verify.sets import InputSet
from trtsmith.converter.verify.verdict import OWN_DEFINITION, Verdict
from trtsmith.importers.opdef import Arrays
from trtsmith.importers.registry import find_aliases, package_of

SHAKEN = 2.0**-20
"""By how much of itself each float input is moved: 16 units of roundoff of float32."""

DRAWS = 4
"""Times that the inputs are moved, each time another way: what rounds to whole numbers may stay the same once."""

EXPLAINED = 0.25
"""From which part of an output's error on the change counts as its cause: of the few values that it moves some move far."""


def shaken(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Moves floats up or down by SHAKEN of themselves; other types stay."""
    array = np.asarray(array)
    if array.dtype.kind != "f":
        return array
    signs = rng.choice([-1.0, 1.0], array.shape)
    return np.asarray(array.astype(np.float64) * (1 + SHAKEN * signs)).astype(array.dtype)


def most_moved(expected: Arrays, feeds: Arrays, run: Callable[[Arrays], Arrays]) -> dict[str, float]:
    """Returns, by output, the largest change by SHAKEN inputs in DRAWS draws; infinity where its shape changes.

    expected: outputs for the feeds. run: computes them for others; a draw that it refuses does not count.
    """
    most = dict.fromkeys(expected, 0.0)
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        try:
            found = run({name: shaken(array, rng) for name, array in feeds.items()})
        except TrtsmithError:  # moved indices, for one
            continue
        for name, array in expected.items():
            same = found[name].shape == array.shape
            most[name] = max(most[name], changed_by(array, found[name]) if same else float("inf"))
    return most


def with_sensitivity(
    verdict: Verdict,
    sets: Sequence[InputSet],
    plain: Sequence[Arrays],
    run: Callable[[Arrays], Arrays],
) -> Verdict:
    """Adds a finding for each float output that disagrees and that SHAKEN inputs move as much.

    A network that quantizes its values at run time is like that where a value stands midway between two steps: one
    takes the other, and a recurrence or a softmax makes much of it.

    plain: the original's outputs for the sets in onnxruntime. run: computes them for other inputs.
    """
    moved: dict[str, Mapping[str, float]] = {}
    for one, outputs in zip(sets, plain, strict=True):
        if any(c.at == one.at and not c.agrees for c in verdict.comparisons):
            floats = {name: array for name, array in outputs.items() if array.dtype.kind == "f"}
            moved[one.at] = most_moved(floats, one.feeds, run)
    told = tuple(
        finding("moved by inputs", c.output, c.at, by=SHAKEN, changed=change)
        for c in verdict.comparisons
        if not c.agrees and (change := moved[c.at].get(c.output, 0.0)) >= EXPLAINED * c.relative > 0
    )
    return replace(verdict, findings=(*verdict.findings, *told))


def with_original(verdict: Verdict, expected: Arrays, plain: Arrays, model: Model) -> Verdict:
    """Adds a finding for each output in which the original model is as far from the user's expectation.

    A network that was just made has scores that are equal, say, which PyTorch and onnxruntime order each in its own way.
    Where operators from outside are in the model, onnxruntime ran their definitions, of which another finding tells.

    model: the original. plain: its outputs in onnxruntime.
    """
    told = []
    for c, off in _as_far(verdict, expected, plain):
        cause, fix = cause_of(c.output, expected, plain, selected=bool(c.meaning))
        known = {"cause": cause, "fix": fix}
        shape = list(plain[c.output].shape)
        if shape != list(expected[c.output].shape):
            told.append(finding("original reshaped", c.output, c.at, shape=shape, **known))
        else:
            told.append(finding("original differs", c.output, c.at, changed=off, **known))
    if told and (outside := _from_outside(model)):
        told.append(finding("package differs", operators=list(outside), files=sorted(set(outside.values()))))
    return replace(verdict, findings=(*verdict.findings, *told))


def _from_outside(model: Model) -> dict[str, str]:
    """By operator of a package in the model, the file that computes it, as seen from the current folder."""
    defined = {name: find_aliases(*name.rpartition("::")[::2]) for name in defined_here(model)}
    return {
        name: os.path.relpath(computed_in(op))
        for name, found in defined.items()
        for op, _ in found
        if package_of(op.name) is not None
    }


def with_functions(
    verdict: Verdict, operators: Sequence[str], plain: Arrays, run: Callable[[], Arrays]
) -> Verdict:
    """Adds findings where the user's functions of these operators may be what differs.

    plain: the original's outputs with the functions. run: computes them without; ConversionError where only the functions
    compute these operators, so that no search for a node can run.
    """
    try:
        told = [
            finding("definition differs", c.output, c.at, operators=list(operators))
            for c, _ in _as_far(verdict, plain, run())
        ]
    except ConversionError:
        told = [finding("functions alone", operators=list(operators))]
    return replace(verdict, findings=(*verdict.findings, *told))


def _as_far(verdict: Verdict, expected: Arrays, other: Arrays) -> Iterator[tuple[Comparison, float]]:
    """Disagreeing outputs of which the others are as far from the expected ones: by how much, infinity in another shape."""
    for c in verdict.comparisons:
        one, found = expected[c.output], other[c.output]
        if c.agrees:
            continue
        if one.shape != found.shape:
            yield c, inf
            continue
        # the ratio of norms of whole numbers, too, as the comparison has it
        off = changed_by(one.astype(np.float64), found.astype(np.float64))
        if found.any() and not one.any():  # no norm to divide by
            off = inf
        # equal where rows match: what keeps others apart is another output of the selection
        if c.meaning and not off:
            off = max(changed_by(a, other[n]) for n, a in expected.items() if a.shape == other[n].shape)
        # `relative` is 0 of rows that match, and of an output that is not finite, which says nothing of the expected one
        if off > 0 and off >= EXPLAINED * c.relative and (c.relative or c.meaning):
            yield c, off


def with_own_definitions(model: Model, verdict: Verdict) -> Verdict:
    """Adds to a verdict on the model's own outputs what these rest on."""
    names = defined_here(model)
    told = []
    if names:
        told.append(finding("own definition", operators=list(names)))
    fused = sorted(n for d, n in quantised(model.proto) if d == "com.microsoft" and "QuantizeLinear" not in n)
    if fused:
        told.append(finding("fused", operators=fused))
    if not verdict.comparisons or not told:
        return verdict
    basis = (*verdict.basis, OWN_DEFINITION) if names else verdict.basis
    return replace(verdict, findings=(*verdict.findings, *told), basis=basis)
