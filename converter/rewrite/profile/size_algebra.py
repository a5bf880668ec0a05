"""Computes exactly with sizes that a profile bounds: polynomials with integer coefficients over atoms with intervals.

An atom is a size of which only the range is known: a dynamic dimension of an input, or what an operation gives that is no
polynomial, such as the floor of a half. Atoms of one key are one atom, so equal computations have equal results.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import reduce
from math import gcd

MOST = 2**31 - 1
"""The largest dimension of TensorRT, which bounds otherwise unknown ones."""

_FAR = 2**64
"""No integer type reaches beyond; expressions that do are given up."""

_MOST_TERMS = 24
_MOST_FACTORS = 6
"""Of one product. Expressions beyond that become atoms."""

Monomial = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SizeExpr:
    """A sum of products. `low` and `high` bound its value, both included.

    terms: coefficients, none of them 0, by product: numbers of atoms in ascending order, () for 1. Sorted.
    """

    terms: tuple[tuple[Monomial, int], ...]
    low: int
    high: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeExpr) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    @property
    def number(self) -> int | None:
        """The expression's single value; None if it may have several."""
        return self.low if self.low == self.high else None

    def atoms(self) -> set[int]:
        return {atom for product, _ in self.terms for atom in product}


_SMALL = {value: SizeExpr((((), value),) if value else (), value, value) for value in range(-64, 1025)}


def constant(value: int) -> SizeExpr:
    """Makes the expression of a number."""
    return _SMALL.get(value) or SizeExpr((((), value),), value, value)


class SizeAlgebra:
    """The atoms of one analysis, and the operations on expressions of them.

    An operation gives None where its result could leave 64 bits: nothing is known of that then.
    """

    def __init__(self) -> None:
        self._bounds: list[tuple[int, int]] = []
        self._atoms: dict[Hashable, int] = {}

    @property
    def count(self) -> int:
        """Number of atoms so far, which is the next atom's number."""
        return len(self._bounds)

    def atom(self, key: Hashable, low: int = 0, high: int = MOST) -> SizeExpr:
        """Makes an atom with a known interval. Equal keys mean equal values."""
        if low >= high:
            return constant(low)
        number = self._atoms.get(key)
        if number is None:
            number = self._atoms[key] = len(self._bounds)
            self._bounds.append((low, high))
        else:  # both hold
            before = self._bounds[number]
            low, high = max(low, before[0]), min(high, before[1])
            if low >= high:
                return constant(low)
            self._bounds[number] = (low, high)
        return SizeExpr((((number,), 1),), low, high)

    def fresh(self, key: Hashable, low: int = 0, high: int = MOST) -> SizeExpr:
        """Makes an atom for a value of unknown origin. The same key with another interval is another atom."""
        return self.atom((key, low, high), low, high)

    def add(self, a: SizeExpr, b: SizeExpr, factor: int = 1) -> SizeExpr | None:
        """Computes a + factor · b."""
        if a.number is not None and b.number is not None:
            return _near(a.number + factor * b.number)
        sums = dict(a.terms)
        for product, coefficient in b.terms:
            sums[product] = sums.get(product, 0) + factor * coefficient
        ends = (factor * b.low, factor * b.high)
        return self._made(sums, a.low + min(ends), a.high + max(ends), ("sum", a, b, factor))

    def sub(self, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
        return self.add(a, b, -1)

    def mul(self, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
        if a.number is not None and b.number is not None:
            return _near(a.number * b.number)
        sums: dict[Monomial, int] = {}
        for left, x in a.terms:
            for right, y in b.terms:
                product = tuple(sorted(left + right))
                sums[product] = sums.get(product, 0) + x * y
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self._made(sums, min(ends), max(ends), ("product", frozenset((a, b))))

    def product(self, factors: Iterable[SizeExpr]) -> SizeExpr | None:
        result: SizeExpr | None = constant(1)
        for factor in factors:
            result = None if result is None else self.mul(result, factor)
        return result

    def floor_div(self, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
        """Computes floor(a / b). None unless b is positive and, for a b that is not a number, a is not negative."""
        divisor = b.number
        if divisor is not None and divisor > 0:
            return self._floor_div_number(a, divisor)
        if b.low <= 0 or a.low < 0:
            return None
        if a == b:
            return constant(1)
        exact = _divided(a, b)
        if exact is not None:
            return self._made(exact, a.low // b.high, a.high // b.low, ("quotient", a, b))
        return self.atom(("quotient", a, b), a.low // b.high, a.high // b.low)

    def _floor_div_number(self, a: SizeExpr, divisor: int) -> SizeExpr | None:
        """What is divisible by itself is divided, term by term; the floor is of the rest."""
        if a.number is not None:
            return _near(a.number // divisor)
        whole = {product: c // divisor for product, c in a.terms}
        low, high = a.low // divisor, a.high // divisor
        rest = self._made({product: c % divisor for product, c in a.terms}, -_FAR, _FAR, None)
        if rest is None:
            return self.atom(("quotient", a, divisor), low, high)
        floor = constant(rest.low // divisor)
        if rest.low // divisor != rest.high // divisor:
            floor = self.atom(("quotient", rest, divisor), rest.low // divisor, rest.high // divisor)
        for product, coefficient in floor.terms:
            whole[product] = whole.get(product, 0) + coefficient
        return self._made(whole, low, high, ("quotient", a, divisor))

    def ceil_div(self, a: SizeExpr, divisor: int) -> SizeExpr | None:
        above = self.add(a, constant(divisor - 1))
        return None if above is None else self.floor_div(above, constant(divisor))

    def mod(self, a: SizeExpr, b: SizeExpr) -> SizeExpr | None:
        """Computes a - b · floor(a / b), for a number b that is positive."""
        divisor = b.number
        floor = None if divisor is None or divisor <= 0 else self.floor_div(a, b)
        if floor is None or divisor is None:
            return None
        rest = self.add(a, floor, -divisor)
        if rest is None or rest.number is not None:
            return rest
        return self._made(dict(rest.terms), 0, divisor - 1, ("rest", a, divisor))

    def smaller(self, a: SizeExpr, b: SizeExpr) -> SizeExpr:
        difference = self.sub(a, b)
        if difference is not None and difference.high <= 0:
            return a
        if difference is not None and difference.low >= 0:
            return b
        return self.atom(("min", frozenset((a, b))), min(a.low, b.low), min(a.high, b.high))

    def larger(self, a: SizeExpr, b: SizeExpr) -> SizeExpr:
        difference = self.sub(a, b)
        if difference is not None and difference.high <= 0:
            return b
        if difference is not None and difference.low >= 0:
            return a
        return self.atom(("max", frozenset((a, b))), max(a.low, b.low), max(a.high, b.high))

    def less(self, a: SizeExpr, b: SizeExpr) -> SizeExpr:
        """Returns 1 or 0, or an unknown of the two."""
        difference = self.sub(a, b)
        if difference is None:
            return self.atom(("less", a, b), 0, 1)
        if difference.high < 0:
            return constant(1)
        if difference.low >= 0:
            return constant(0)
        return self.atom(("less", a, b), 0, 1)

    def equal(self, a: SizeExpr, b: SizeExpr) -> SizeExpr:
        """Returns 1 or 0, or an unknown of the two. Never 1 if a divisor of all other terms does not divide the number."""
        difference = self.sub(a, b)
        key = "equal", frozenset((a, b))
        if difference is None:
            return self.atom(key, 0, 1)
        if difference.number is not None:
            return constant(int(difference.number == 0))
        if difference.low > 0 or difference.high < 0:
            return constant(0)
        step = reduce(gcd, (c for product, c in difference.terms if product), 0)
        rest = dict(difference.terms).get((), 0)
        if step and rest % step:
            return constant(0)
        return self.atom(key, 0, 1)

    def _made(self, sums: dict[Monomial, int], low: int, high: int, key: Hashable) -> SizeExpr | None:
        """The expression of these coefficients, whose value is in the interval, too. An atom of the key if it is large."""
        terms = tuple(sorted((product, c) for product, c in sums.items() if c))
        least = most = 0
        for product, coefficient in terms:
            ends = (1, 1)
            for atom in product:
                corners = [x * y for x in ends for y in self._bounds[atom]]
                ends = min(corners), max(corners)
            corners = [coefficient * end for end in ends]
            least, most = least + min(corners), most + max(corners)
        low, high = max(low, least), min(high, most)
        if low == high:
            return _near(low)
        if not -_FAR < low <= high < _FAR:
            return None
        if len(terms) > _MOST_TERMS or any(len(product) > _MOST_FACTORS for product, _ in terms):
            return None if key is None else self.atom(key, low, high)
        return SizeExpr(terms, low, high)


def _near(value: int) -> SizeExpr | None:
    return constant(value) if -_FAR < value < _FAR else None


def _divided(a: SizeExpr, b: SizeExpr) -> dict[Monomial, int] | None:
    """a / b where b is one product that divides every term of a without a rest."""
    if len(b.terms) != 1:
        return None
    ((divisor, factor),) = b.terms
    quotient = {}
    for product, coefficient in a.terms:
        left = list(product)
        for atom in divisor:
            if atom not in left:
                return None
            left.remove(atom)
        if coefficient % factor:
            return None
        quotient[tuple(left)] = coefficient // factor
    return quotient
