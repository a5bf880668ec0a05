"""Finds the shape rule and the check of an operator by running them on symbols, for every rank that its inputs may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import unwrap
from itertools import product
from typing import Any, Generic, TypeVar, Union

import numpy as np

from trtsmith.converter.compile.definitions.formulas import CLOSE, OPEN, Formula, Sizes, value_of
from trtsmith.converter.compile.definitions.symbols import (
    Answer,
    Fork,
    ForkEnd,
    Symbol,
    TooManyWaysError,
    Walk,
    explore,
)
from trtsmith.importers.opdef import Case, Fields, Kind, OpDef, Shapes

T = TypeVar("T")
Dims = Mapping[str, tuple[Any, ...]]
Rule = Callable[[Fields, Shapes], Mapping[str, tuple[Any, ...]]]

MOST_RANK = 8
"""TensorRT's."""

_MOST_RANKS = 100
_SEED = 7


class NotTracedError(Exception):
    """A rule does something that symbols cannot follow, said in a sentence."""


@dataclass(frozen=True)
class Traced(Generic[T]):
    """A rule's behaviour for inputs of these ranks, in the order of the ports; omitted ones come last."""

    ranks: tuple[int, ...]
    tree: Fork[T] | ForkEnd[T]


OutputShapes = Union[tuple[tuple[Formula, ...], ...], str]  # noqa: UP007
"""In the order of the ports; or why inputs of these ranks, with these fields, have no outputs."""


@dataclass(frozen=True)
class Rules:
    """The rules of an operator. sizes: the largest value of each size port, none where there are none."""

    shape: tuple[Traced[OutputShapes], ...]
    sizes: tuple[Traced[OutputShapes], ...]
    check: tuple[Traced[tuple[str, ...]], ...]


def trace_rules(op: OpDef) -> Rules:
    """Traces an operator's rules and checks them against its cases. Raises NotTracedError."""
    # As they were written: what guards those of a package does not know symbols.
    op = replace(op, shape=unwrap(op.shape), check=unwrap(op.check), bounds=unwrap(op.bounds))

    def found(rule: Rule, run: Walk, shapes: Dims, names: Sequence[str]) -> OutputShapes:
        fields = _fields(op, run)
        faults: Sequence[str] = ()
        with suppress(TypeError):  # of a check of the user's that wants sizes
            faults = op.check(fields, {name: (None,) * len(shape) for name, shape in shapes.items()})
        if faults:
            return _first(run, faults)
        made = rule(fields, shapes)
        return tuple(tuple(_formula(dim) for dim in made[name]) for name in names)

    def shape(run: Walk, shapes: Dims) -> OutputShapes:
        sizes = {port.name: (Symbol(run, Formula("size", (i,))),) for i, port in enumerate(op.sizes)}
        return found(op.shape, run, {**shapes, **sizes}, [port.name for port in op.outputs])

    def sizes(run: Walk, shapes: Dims) -> OutputShapes:
        def bounds(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
            return {name: (bound,) for name, bound in op.bounds(fields, shapes).items()}

        return found(bounds, run, shapes, [port.name for port in op.sizes])

    rules = Rules(
        _trace(op, "shape", shape), _trace(op, "bounds", sizes) if op.sizes else (), _trace_check(op)
    )
    for name, traced_rules in (("shape", rules.shape), ("bounds", rules.sizes)):
        for traced in traced_rules:
            _require_no_sizes_in_questions(name, traced.tree)
    _compare_with_cases(op, rules)
    return rules


def _trace_check(op: OpDef) -> tuple[Traced[tuple[str, ...]], ...]:
    """Every way up to its first fault, which is where a symbol is put into a text.

    A check that also puts one into a text that is no fault is followed to its end.
    """

    def faults(run: Walk, shapes: Dims) -> tuple[str, ...]:
        return tuple(str(fault) for fault in op.check(_fields(op, run), shapes))

    def first_fault(run: Walk, shapes: Dims) -> tuple[str, ...]:
        found = faults(run, shapes)
        return (_first(run, found),) if found else ()

    with suppress(NotTracedError):
        traced = _trace(op, "check", first_fault, ends_in_text=True)
        if all(end.value or not end.told for each in traced for end in leaves(each.tree)):
            return traced
    found = _trace(op, "check", faults, _is_fault)
    return tuple(Traced(traced.ranks, _joined(traced.tree)) for traced in found)


def _first(run: Walk, faults: Sequence[str]) -> str:
    """Of faults, the one into which a symbol was put first: what comes after it may not hold on this way."""
    return next((str(fault) for fault in faults if f"{OPEN}0{CLOSE}" in fault), str(faults[0]))


def _is_fault(end: ForkEnd[tuple[str, ...]]) -> bool:
    return bool(end.failure or end.value)


def _trace(
    op: OpDef,
    name: str,
    rule: Callable[[Walk, Dims], T],
    settled: Callable[[ForkEnd[T]], bool] | None = None,
    ends_in_text: bool = False,
) -> tuple[Traced[T], ...]:
    found = []
    numbers = _answers_of_cases(op) if settled is not None else {}
    for ranks in _ranks(op):

        def on_symbols(run: Walk, ranks: tuple[int, ...] = ranks) -> T:
            shapes = {
                port.name: tuple(Symbol(run, Formula("dimension", (i, axis))) for axis in range(rank))
                for i, (port, rank) in enumerate(zip(op.inputs, ranks, strict=False))
            }
            return rule(run, shapes)

        try:
            found.append(Traced(ranks, _explored(on_symbols, settled, numbers.get(ranks, ()), ends_in_text)))
        except TooManyWaysError as error:
            raise NotTracedError(f"its `{name}` cannot be followed: {error}") from error
    failures = [leaf.failure for traced in found for leaf in leaves(traced.tree)]
    if all(failures):
        raise NotTracedError(f"its `{name}` fails on symbols: {failures[0]}")
    return tuple(found)


def _explored(
    rule: Callable[[Walk], T],
    settled: Callable[[ForkEnd[T]], bool] | None,
    known: Sequence[Answer],
    ends_in_text: bool,
) -> Fork[T] | ForkEnd[T]:
    """Every way; if there are too many, those that differ from a case's own way in one answer at a time."""
    try:
        return explore(rule, ends_in_text=ends_in_text)
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
    """The ends of all branches."""
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


def _require_no_sizes_in_questions(name: str, tree: Fork[T] | ForkEnd[T]) -> None:
    if isinstance(tree, ForkEnd):
        return
    if tree.condition.uses("dimension") or tree.condition.uses("size"):
        raise NotTracedError(
            f"its `{name}` asks for the value of a dimension, which a plugin does not know yet"
        )
    _require_no_sizes_in_questions(name, tree.yes)
    _require_no_sizes_in_questions(name, tree.no)


def leaf_for(found: tuple[Traced[T], ...], fields: Mapping[str, Any], shapes: Sizes) -> ForkEnd[T]:
    """The end of the branch for known fields and input shapes."""
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
    bounds = op.bounds(fields, known)
    sizes = {port.name: (bounds[port.name],) for port in op.sizes}
    rights = [("shape", rules.shape, op.outputs, op.shape(fields, {**known, **sizes}))]
    if sizes:
        rights.append(("bounds", rules.sizes, op.sizes, sizes))
    for name, traced, ports, right in rights:
        end = leaf_for(traced, fields, shapes)
        if end.value is None or isinstance(end.value, str):
            raise NotTracedError(f"its `{name}` fails on symbols {where}: {end.failure or end.value}")
        most = [size for (size,) in sizes.values()]
        found = [tuple(value_of(dim, fields, shapes, most) for dim in output) for output in end.value]
        if found != [tuple(right[port.name]) for port in ports]:
            raise NotTracedError(f"its `{name}` gives something else on symbols than on numbers {where}")
