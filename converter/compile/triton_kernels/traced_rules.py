"""Finds the shape rule and the check of an operator by running them on symbols, for every rank that its inputs may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import unwrap
from itertools import product
from typing import Any, Generic, TypeVar

import numpy as np

from trtsmith.converter.compile.triton_kernels.formulas import Formula, Sizes, value_of
from trtsmith.converter.compile.triton_kernels.symbols import (
    Answer,
    Fork,
    ForkEnd,
    Symbol,
    TooManyWaysError,
    Walk,
    explore,
)
from trtsmith.importers.opdef import Case, Kind, OpDef

T = TypeVar("T")
Dims = Mapping[str, tuple[Any, ...]]

MOST_RANK = 8
"""TensorRT's."""

_MOST_RANKS = 100
_SEED = 7


class NotTracedError(Exception):
    """What a rule does that symbols cannot follow, in a sentence."""


@dataclass(frozen=True)
class Traced(Generic[T]):
    """What a rule does for inputs of these ranks, in the order of the ports; those that are left out come last."""

    ranks: tuple[int, ...]
    tree: Fork[T] | ForkEnd[T]


@dataclass(frozen=True)
class Rules:
    """Both rules: output shapes as formulas, and sentences about what does not fit."""

    shape: tuple[Traced[tuple[tuple[Formula, ...], ...]], ...]
    check: tuple[Traced[tuple[str, ...]], ...]


def trace_rules(op: OpDef) -> Rules:
    """The rules of an operator, held to what they give for its own cases. Raises NotTracedError."""
    # As they were written: what guards those of a package does not know symbols.
    op = replace(op, shape=unwrap(op.shape), check=unwrap(op.check))

    def shape(run: Walk, shapes: Dims) -> tuple[tuple[Formula, ...], ...]:
        found = op.shape(_fields(op, run), shapes)
        return tuple(tuple(_formula(dim) for dim in found[port.name]) for port in op.outputs)

    def check(run: Walk, shapes: Dims) -> tuple[str, ...]:
        return tuple(str(fault) for fault in op.check(_fields(op, run), shapes))

    found = _trace(op, "check", check, _is_fault)
    checks = tuple(Traced(traced.ranks, _joined(traced.tree)) for traced in found)
    rules = Rules(_trace(op, "shape", shape), checks)
    for traced in rules.shape:
        _require_no_sizes_in_questions(traced.tree)
    _compare_with_cases(op, rules)
    return rules


def _is_fault(end: ForkEnd[tuple[str, ...]]) -> bool:
    return bool(end.failure or end.value)


def _trace(
    op: OpDef,
    name: str,
    rule: Callable[[Walk, Dims], T],
    settled: Callable[[ForkEnd[T]], bool] | None = None,
) -> tuple[Traced[T], ...]:
    found = []
    numbers = _answers_of_cases(op)
    for ranks in _ranks(op):

        def on_symbols(run: Walk, ranks: tuple[int, ...] = ranks) -> T:
            shapes = {
                port.name: tuple(Symbol(run, Formula("dimension", (i, axis))) for axis in range(rank))
                for i, (port, rank) in enumerate(zip(op.inputs, ranks, strict=False))
            }
            return rule(run, shapes)

        try:
            found.append(Traced(ranks, _explored(on_symbols, settled, numbers.get(ranks, ()))))
        except TooManyWaysError as error:
            raise NotTracedError(f"its `{name}` cannot be followed: {error}") from error
    failures = [leaf.failure for traced in found for leaf in leaves(traced.tree)]
    if all(failures):
        raise NotTracedError(f"its `{name}` fails on symbols: {failures[0]}")
    return tuple(found)


def _explored(
    rule: Callable[[Walk], T], settled: Callable[[ForkEnd[T]], bool] | None, known: Sequence[Answer]
) -> Fork[T] | ForkEnd[T]:
    """Every way; if there are too many, those that differ from a case's own way in one answer at a time."""
    try:
        return explore(rule)
    except TooManyWaysError:
        if settled is None or not known:
            raise
    return explore(rule, settled, known)


def _answers_of_cases(op: OpDef) -> dict[tuple[int, ...], tuple[Answer, ...]]:
    """What the cases' own sizes answer to questions, by the ranks of their inputs."""
    found: dict[tuple[int, ...], list[Answer]] = {}
    for case, shapes in _shapes_of_cases(op):

        def answer(question: Formula, case: Case = case, shapes: Sizes = shapes) -> bool:
            return bool(value_of(question, case.fields, shapes))

        found.setdefault(tuple(map(len, shapes)), []).append(answer)
    return {ranks: tuple(answers) for ranks, answers in found.items()}


def _shapes_of_cases(op: OpDef) -> Iterator[tuple[Case, Sizes]]:
    for case in op.cases:
        if not case.large:
            generated = case.inputs(np.random.default_rng(_SEED))
            yield case, tuple(generated[port.name].shape for port in op.inputs if port.name in generated)


def _joined(
    tree: Fork[tuple[str, ...]] | ForkEnd[tuple[str, ...]],
) -> Fork[tuple[str, ...]] | ForkEnd[tuple[str, ...]]:
    """The tree of a check with one end for all ways that end in faults: a plugin says the first thing that does not fit."""
    if isinstance(tree, ForkEnd):
        return tree
    yes, no = _joined(tree.yes), _joined(tree.no)
    ends = [way for way in (yes, no) if isinstance(way, ForkEnd)]
    if len(ends) == 2 and _is_fault(ends[0]) == _is_fault(ends[1]):
        return ends[0]
    return Fork(tree.condition, yes, no)


def _ranks(op: OpDef) -> Iterator[tuple[int, ...]]:
    """Every choice of ranks, with none, one, two ... optional inputs at the end."""
    least = sum(not port.optional for port in op.inputs)
    for count in range(least, len(op.inputs) + 1):
        choices = [range(MOST_RANK + 1) if port.rank is None else (port.rank,) for port in op.inputs[:count]]
        if np.prod([len(choice) for choice in choices]) > _MOST_RANKS:
            raise NotTracedError("it has more than two inputs of any rank")
        yield from product(*choices)


def leaves(tree: Fork[T] | ForkEnd[T]) -> Iterator[ForkEnd[T]]:
    """The ends of all ways."""
    if isinstance(tree, ForkEnd):
        yield tree
    else:
        yield from leaves(tree.yes)
        yield from leaves(tree.no)


def _fields(op: OpDef, run: Walk) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for spec in op.fields:
        real = spec.kind in (Kind.FLOAT, Kind.FLOATS)
        if spec.kind.is_list:
            places = range(spec.length or 0)
            values[spec.name] = tuple(
                Symbol(run, Formula("field", (spec.name, i, real)), real) for i in places
            )
        else:
            values[spec.name] = Symbol(run, Formula("field", (spec.name, None, real)), real)
    return values


def _formula(value: Any) -> Formula:
    if isinstance(value, Symbol):
        return value.formula
    if isinstance(value, (int, np.integer)):
        return Formula("constant", (int(value),))
    raise TypeError(f"a dimension is a {type(value).__name__}")


def _require_no_sizes_in_questions(tree: Fork[T] | ForkEnd[T]) -> None:
    if isinstance(tree, ForkEnd):
        return
    if tree.condition.uses("dimension"):
        raise NotTracedError(
            "its `shape` asks for the value of a dimension, which a plugin does not know yet"
        )
    _require_no_sizes_in_questions(tree.yes)
    _require_no_sizes_in_questions(tree.no)


def leaf_for(found: tuple[Traced[T], ...], fields: Mapping[str, Any], shapes: Sizes) -> ForkEnd[T]:
    """Where the way of known fields and input shapes ends."""
    ranks = tuple(len(shape) for shape in shapes)
    tree = next((traced.tree for traced in found if traced.ranks == ranks), None)
    if tree is None:
        raise NotTracedError(f"a case has inputs of the ranks {ranks}, which its ports do not take")
    while isinstance(tree, Fork):
        tree = tree.yes if value_of(tree.condition, fields, shapes) else tree.no
    return tree


def _compare_with_cases(op: OpDef, rules: Rules) -> None:
    """A rule that looks at what a dimension is, not at its value, would be followed wrongly: so it is tried on numbers."""
    for case, right in _shapes_of_cases(op):
        variations = [list(right)]
        for i, shape in enumerate(right):
            for axis in range(len(shape)):
                changed = list(right)
                changed[i] = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])
                variations.append(changed)
        for shapes in variations:
            _compare(op, rules, case.name, case.fields, tuple(shapes))


def _compare(op: OpDef, rules: Rules, case: str, fields: Mapping[str, Any], shapes: Sizes) -> None:
    known = {port.name: shape for port, shape in zip(op.inputs, shapes, strict=False)}
    where = f"for the shapes of case '{case}' or shapes near them"
    faults = op.check(fields, known)
    leaf = leaf_for(rules.check, fields, shapes)
    if leaf.failure or bool(leaf.value) != bool(faults):
        raise NotTracedError(f"its `check` says something else on symbols than on numbers {where}")
    if faults:
        return
    right = op.shape(fields, known)
    ending = leaf_for(rules.shape, fields, shapes)
    if ending.value is None:
        raise NotTracedError(f"its `shape` fails on symbols {where}: {ending.failure}")
    found = [tuple(value_of(dim, fields, shapes) for dim in output) for output in ending.value]
    if found != [tuple(right[port.name]) for port in op.outputs]:
        raise NotTracedError(f"its `shape` gives something else on symbols than on numbers {where}")
