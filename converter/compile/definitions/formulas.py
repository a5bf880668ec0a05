"""Integers and conditions that are written down, not computed: what a rule makes of symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

Sizes = tuple[tuple[int, ...], ...]
"""Shapes of the inputs that are there, in the order of the ports."""

OPEN, CLOSE = "\ue000", "\ue001"
"""Around the number of a symbol in text that a rule made of it: private characters of Unicode."""


@dataclass(frozen=True)
class Formula:
    """An integer or a condition: an operation on others, or a leaf.

    operation: "+" "-" "*" "//" "%" "smaller" "gcd", a comparison, "constant", "dimension", "field" or "size".
    parts:     formulas; of leaves the value, (input, axis), (name, index, is it a float) or (place among the size ports,).
    """

    operation: str
    parts: tuple[Any, ...]

    def uses(self, leaf: str) -> bool:
        """Whether the formula has a leaf of that kind."""
        return self.operation == leaf or any(
            part.uses(leaf) for part in self.parts if isinstance(part, Formula)
        )


def simplified(formula: Formula) -> Formula:
    """Simplifies a formula: drops + 0 and * 1, and folds constants."""
    left: Formula
    right: Formula
    left, right = formula.parts
    a, b = (part.parts[0] if part.operation == "constant" else None for part in (left, right))
    if a is not None and b is not None and not (formula.operation in ("//", "%") and b == 0):
        return Formula("constant", (_OPERATIONS[formula.operation](a, b),))
    if (formula.operation in ("+", "-") and b == 0) or (formula.operation in ("*", "//") and b == 1):
        return left
    if (formula.operation == "+" and a == 0) or (formula.operation == "*" and a == 1):
        return right
    return formula


def value_of(formula: Formula, fields: Mapping[str, Any], shapes: Sizes, sizes: Sequence[int] = ()) -> Any:
    """The value of a formula for known fields, input shapes and size ports."""
    if formula.operation == "constant":
        return formula.parts[0]
    if formula.operation == "dimension":
        return shapes[formula.parts[0]][formula.parts[1]]
    if formula.operation == "size":
        return sizes[formula.parts[0]]
    if formula.operation == "field":
        value = fields[formula.parts[0]]
        return value if formula.parts[1] is None else value[formula.parts[1]]
    a, b = (value_of(part, fields, shapes, sizes) for part in formula.parts)
    return _OPERATIONS[formula.operation](a, b)


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "smaller": min,
    "gcd": gcd,
    "==": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}


def parts_of(text: str, told: tuple[Formula, ...]) -> Iterator[str | Formula]:
    """A rule's sentence split into texts and symbols."""
    before, *rest = text.split(OPEN)
    if before:
        yield before
    for piece in rest:
        number, _, after = piece.partition(CLOSE)
        yield told[int(number)]
        if after:
            yield after
