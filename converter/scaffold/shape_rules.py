"""Finds the shape rule of a runnable function: which sizes may change, and how the outputs' sizes follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.scaffold.quoting import literal

Sizes = Mapping[str, tuple[int, ...]]
"""Shapes by port name."""

Axis = tuple[str, int]
"""A port, and one of its dimensions."""

Run = Callable[[Sizes], "Sizes | None"]
"""Output shapes for input shapes; None if it does not take them."""

_FACTORS = tuple(range(2, 65))


@dataclass(frozen=True)
class ShapeRules(PlainData):
    """The result of `find_rules`.

    free:    groups of dimensions that are of one size, which may be any; each group is a size of the operator.
    fixed:   dimensions with the only size that was taken.
    outputs: an expression for each dimension of each output, in Python, of names such as x[0] and fields["window"].
    tried:   input shapes that were taken, the given ones first.
    first:   output shapes for the first of them; None where they are not known.
    """

    free: tuple[tuple[Axis, ...], ...]
    fixed: tuple[tuple[Axis, int], ...]
    outputs: Mapping[str, tuple[str, ...]]
    tried: tuple[Sizes, ...]
    first: Mapping[str, tuple[int, ...] | None]


class NoRuleError(Exception):
    """A dimension follows no known rule: (output, axis, its sizes)."""


def find_rules(given: Sizes, fields: Mapping[str, int], run: Run) -> ShapeRules:
    """Finds the shape rules of `run` by trying sizes. fields: whole numbers that a rule may use.

    Raises NoRuleError, and LookupError if `run` does not take the given shapes.
    """
    first = run(given)
    if first is None:
        raise LookupError("the given shapes are not taken")
    free, fixed = _sizes(given, run)
    samples: list[tuple[Sizes, Sizes]] = [(given, first)]
    for trial in _trials(given, free):
        made = run(trial)
        if made is not None:
            samples.append((trial, made))
    outputs = {
        name: tuple(_expression(name, axis, samples, free, fields) for axis in range(len(shape)))
        for name, shape in first.items()
    }
    return ShapeRules(free, fixed, outputs, tuple(sizes for sizes, _ in samples), first)


def with_size(sizes: Sizes, group: Sequence[Axis], size: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes with one group of dimensions resized."""
    changed = {name: list(shape) for name, shape in sizes.items()}
    for name, axis in group:
        changed[name][axis] = size
    return {name: tuple(shape) for name, shape in changed.items()}


def _sizes(given: Sizes, run: Run) -> tuple[tuple[tuple[Axis, ...], ...], tuple[tuple[Axis, int], ...]]:
    """Dimensions that may change alone, then those that may with others of the same size; the rest is fixed.

    One that only goes in multiples may change: what takes it does so by a factor. Groups are as small as they can be, since
    dimensions that the example gives one size need not agree: the height and the width of square images.
    """
    axes = [(name, axis) for name, shape in given.items() for axis in range(len(shape))]

    def taken(group: Sequence[Axis]) -> bool:
        name, axis = group[0]
        size = given[name][axis]
        return any(
            all(run(with_size(given, group, other)) is not None for other in others)
            for others in ((size + 1, size + 2), (2 * size, 3 * size))
        )

    alone = [axis for axis in axes if taken((axis,))]
    rest = [axis for axis in axes if axis not in alone]
    together: list[tuple[Axis, ...]] = []
    while rest:
        name, axis = rest[0]
        same = [one for one in rest if given[one[0]][one[1]] == given[name][axis]]
        group = next(
            (
                tuple(part)
                for count in range(2, len(same) + 1)
                for part in combinations(same, count)
                if rest[0] in part and taken(part)
            ),
            None,
        )
        rest = [one for one in rest if one not in (group or rest[:1])]
        together += [group] if group is not None else []
    free = (*_broadcast(given, alone, run), *together)
    known = {axis for group in free for axis in group}
    fixed = tuple(((name, axis), given[name][axis]) for name, axis in axes if (name, axis) not in known)
    return free, fixed


def _broadcast(given: Sizes, alone: Sequence[Axis], run: Run) -> list[tuple[Axis, ...]]:
    """The groups of these dimensions. Those of size 1, which may change alone as they are broadcast, are of one size where
    two sizes are not taken: the batches of two inputs, in an example of one image.
    """
    groups: list[tuple[Axis, ...]] = []
    for axis in alone:
        name, at = axis
        ones = [group for group in groups if given[group[0][0]][group[0][1]] == given[name][at] == 1]
        for group in ones:
            two = with_size(given, group, 2)
            if run(with_size(two, [axis], 2)) is not None and run(with_size(two, [axis], 3)) is None:
                groups[groups.index(group)] = (*group, axis)
                break
        else:
            groups.append((axis,))
    return groups


def _trials(given: Sizes, free: Sequence[Sequence[Axis]]) -> Iterator[Sizes]:
    """All groups in other sizes at once, then one after the other, then the smallest."""
    changed: Sizes = given
    for index, group in enumerate(free):
        name, axis = group[0]
        changed = with_size(changed, group, given[name][axis] + 3 + 2 * index)
    if free:
        yield changed
    ones: Sizes = given
    for group in free:
        ones = with_size(ones, group, 1)
    if free:
        yield ones
    for group in free:
        name, axis = group[0]
        size = given[name][axis]
        for other in (size + 1, size + 5, 2 * size, 3 * size):
            yield with_size(given, group, other)


def _expression(
    output: str,
    axis: int,
    samples: Sequence[tuple[Sizes, Sizes]],
    free: Sequence[Sequence[Axis]],
    fields: Mapping[str, int],
) -> str:
    right = [made[output][axis] if axis < len(made[output]) else -1 for _, made in samples]
    symbols = [(f"{name}[{at}]", [sizes[name][at] for sizes, _ in samples]) for (name, at), *_ in free]
    for text, values in _candidates(symbols, fields, right[0]):
        if values == right:
            return text
    raise NoRuleError(output, axis, tuple(right))


def _candidates(
    symbols: Sequence[tuple[str, list[int]]], fields: Mapping[str, int], first: int
) -> Iterator[tuple[str, list[int]]]:
    """Rules, simple ones first: (text, values in all samples)."""
    count = len(symbols[0][1]) if symbols else 1
    yield from symbols
    for name, value in fields.items():
        yield f"fields[{literal(name)}]", [value] * max(count, 1)
    yield str(first), [first] * max(count, 1)
    numbers = [(f"fields[{literal(name)}]", value) for name, value in fields.items() if value > 0]
    numbers += [(str(value), value) for value in _FACTORS]
    for text, values in symbols:
        for number, value in numbers:
            yield f"{text} // {number}", [v // value for v in values]
            yield f"{text} * {number}", [v * value for v in values]
        offset = first - values[0]
        for number, value in numbers:
            for sign in (1, -1):
                if sign * value == offset:
                    yield f"{text} {'+' if sign > 0 else '-'} {number}", [v + offset for v in values]
        yield f"{text} {'+' if offset > 0 else '-'} {abs(offset)}", [v + offset for v in values]
        for number, value in numbers:
            for more in (*range(-8, 0), *range(1, value)):
                inner = f"{text} {'+' if more > 0 else '-'} {abs(more)}"
                yield f"({inner}) // {number}", [(v + more) // value for v in values]
            yield f"({text} - {number}) + 1", [v - value + 1 for v in values]
    for (one, first_values), (other, other_values) in combinations(symbols, 2):
        yield f"{one} * {other}", [a * b for a, b in zip(first_values, other_values, strict=True)]
        yield f"{one} + {other}", [a + b for a, b in zip(first_values, other_values, strict=True)]
