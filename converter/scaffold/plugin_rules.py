"""Makes shape rules of the expressions that a plugin computes with symbols, and replaces numbers in them by fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trtsmith.converter.compile.definitions.formulas import Formula, simplified, value_of
from trtsmith.converter.scaffold.quoting import literal

Rules = tuple[tuple[Formula, ...], ...]
"""For each output a formula for each dimension."""

Observed = Sequence[Sequence[str]]
"""The same as texts of the plugin host, such as "floor_div(i0.d2, 2)"."""

_TOKEN = re.compile(r"i(\d+)\.d(\d+)|(-?\d+)|(\w+)\(|, |\)")
_OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "floor_div": "//", "min": "smaller"}
_ARITHMETIC = ("+", "-", "*", "//")


def rules_with_fields(
    seen: Observed, fields: Mapping[str, Any], changed: Sequence[tuple[Mapping[str, Any], Observed]]
) -> Rules | None:
    """Returns the rules with fields in place of numbers that follow them; None if no rule is certain.

    fields: values with which `seen` was asked. changed: what other values gave, each with those that differ.
    """
    base, others = _parsed(seen), [({**fields, **change}, _parsed(rules)) for change, rules in changed]
    if base is None or any(rules is None or _skeleton(rules) != _skeleton(base) for _, rules in others):
        return None
    samples = [(values, _numbers_of(rules or ())) for values, rules in [({**fields}, base), *others]]
    made = []
    for place, number in enumerate(samples[0][1]):
        formula = _number_rule(number, [(values, numbers[place]) for values, numbers in samples])
        if formula is None:
            return None
        made.append(formula)
    rest = iter(made)
    return tuple(tuple(_replaced(dim, rest) for dim in dims) for dims in base)


def python_text(formula: Formula, names: Sequence[str]) -> str:
    """Writes the formula in Python, of the inputs by these names and of `fields`."""
    if formula.operation == "constant":
        return str(formula.parts[0])
    if formula.operation == "dimension":
        return f"{names[formula.parts[0]]}[{formula.parts[1]}]"
    if formula.operation == "field":
        name, index, _ = formula.parts
        return f"fields[{literal(name)}]" + ("" if index is None else f"[{index}]")
    wrap = "{}" if formula.operation == "smaller" else "({})"
    parts = (
        wrap.format(python_text(part, names)) if part.operation in _ARITHMETIC else python_text(part, names)
        for part in formula.parts
    )
    if formula.operation == "smaller":
        return f"smaller({', '.join(parts)})"
    return f" {formula.operation} ".join(parts)


def _parsed(seen: Observed) -> Rules | None:
    try:
        return tuple(tuple(_read(_TOKEN.finditer(text)) for text in dims) for dims in seen)
    except (LookupError, StopIteration):
        return None


def _read(tokens: Iterator[re.Match[str]]) -> Formula:
    """The next formula. LookupError for an operation that shape rules do not have."""
    token = next(tokens)
    if token[1]:
        return Formula("dimension", (int(token[1]), int(token[2])))
    if token[3]:
        return Formula("constant", (int(token[3]),))
    name = token[4]
    left = _read(tokens)
    next(tokens)
    right = _read(tokens)
    next(tokens)
    if name == "max":
        return Formula("-", (Formula("+", (left, right)), Formula("smaller", (left, right))))
    if name == "ceil_div":
        one = Formula("constant", (1,))
        left, name = Formula("-", (Formula("+", (left, right)), one)), "floor_div"
    if name == "floor_div" and right.uses("dimension"):
        raise LookupError(name)
    return Formula(_OPERATIONS[name], (left, right))


def _skeleton(rules: Rules | None) -> list[list[str]]:
    return [[re.sub(r"-?\d+", "#", _shown(dim)) for dim in dims] for dims in rules or ()]


def _shown(formula: Formula) -> str:
    """The formula with its dimensions in letters, so that its digits are numbers."""
    if formula.operation == "dimension":
        return "i" + "".join(chr(ord("a") + part) for part in formula.parts)
    if formula.operation == "constant":
        return str(formula.parts[0])
    return f"({formula.operation} {' '.join(map(_shown, formula.parts))})"


def _numbers_of(rules: Rules) -> list[int]:
    return [number for dims in rules for dim in dims for number in _numbers(dim)]


def _numbers(formula: Formula) -> Iterator[int]:
    if formula.operation == "constant":
        yield formula.parts[0]
    elif formula.operation != "dimension":
        for part in formula.parts:
            yield from _numbers(part)


def _replaced(formula: Formula, numbers: Iterator[Formula]) -> Formula:
    if formula.operation == "constant":
        return next(numbers)
    if formula.operation == "dimension":
        return formula
    left, right = (_replaced(part, numbers) for part in formula.parts)
    return _of(formula.operation, left, right)


Key = tuple[str, "int | None"]
"""A field, and the place in it if it is a list."""


def _elements(fields: Mapping[str, Any]) -> list[Key]:
    return [
        (name, index)
        for name, value in fields.items()
        for index in (range(len(value)) if isinstance(value, (tuple, list)) else (None,))
    ]


def _at(values: Mapping[str, Any], key: Key) -> Any:
    value = values[key[0]]
    return value if key[1] is None else value[key[1]]


def _number_rule(number: int, samples: Sequence[tuple[Mapping[str, Any], int]]) -> Formula | None:
    """The number as a formula of fields that agrees with every sample, the first of which has it. None where none does.

    A field that changes the number must be an integer that was changed twice alone; several, all of them at once, too.
    """
    first = samples[0][0]
    moves = [({k for k in _elements(first) if _at(v, k) != _at(first, k)}, v, n) for v, n in samples[1:]]
    used = list(
        dict.fromkeys(key for moved, _, n in moves if len(moved) == 1 and n != number for key in moved)
    )
    alone = {
        key: [(_at(v, key) - _at(first, key), n - number) for moved, v, n in moves if moved == {key}]
        for key in used
    }
    sure = all(len(steps) > 1 and isinstance(_at(first, key), int) for key, steps in alone.items())
    if not sure or (len(used) > 1 and not any({*used} <= moved for moved, _, _ in moves)):
        return None
    for rule in _candidates(number, first, alone):
        if all(value_of(rule, values, ()) == found for values, found in samples):
            return rule
    return None


def _candidates(
    number: int, fields: Mapping[str, Any], alone: Mapping[Key, Sequence[tuple[int, int]]]
) -> Iterator[Formula]:
    """A sum of multiples of the fields, their product and their squares' product, each with the constant that fits."""
    terms, rest = Formula("constant", (0,)), number
    for key, steps in alone.items():
        slope = steps[0][1] // steps[0][0]
        rest -= slope * _at(fields, key)
        terms = _of("+", terms, _of("*", Formula("field", (*key, False)), Formula("constant", (slope,))))
    yield _of("+", terms, Formula("constant", (rest,)))
    for power in (1, 2):
        product = Formula("constant", (1,))
        for key in [*alone] * power:
            product = _of("*", product, Formula("field", (*key, False)))
        value = value_of(product, fields, ())
        if value and number % value == 0:
            yield _of("*", product, Formula("constant", (number // value,)))


def _of(operation: str, left: Formula, right: Formula) -> Formula:
    return simplified(Formula(operation, (left, right)))
