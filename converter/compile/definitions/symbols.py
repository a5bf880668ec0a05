"""Runs a shape rule on symbols instead of numbers, along every branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trtsmith.converter.compile.definitions.formulas import CLOSE, OPEN, Formula, simplified

T = TypeVar("T")

_MOST_WAYS = 1 << 11
"""A rule with more ways asks for more than sizes decide."""


class TooManyWaysError(Exception):
    """A rule has too many branches to write out."""


@dataclass(frozen=True)
class ForkEnd(Generic[T]):
    """The end of a branch: the rule's result or failure. told: the symbols in its text, by number."""

    value: T | None
    failure: str
    told: tuple[Formula, ...]


@dataclass(frozen=True)
class Fork(Generic[T]):
    """A branch point: a condition that a rule tests."""

    condition: Formula
    yes: Fork[T] | ForkEnd[T]
    no: Fork[T] | ForkEnd[T]


Answer = Callable[[Formula], bool]
"""Whether a condition holds."""


class Walk:
    """One run of a rule: its first questions get the given answers, later ones `otherwise`.

    ends_in_text: what is asked once a symbol stands in a text is of no interest.
    """

    def __init__(self, answers: tuple[bool, ...], otherwise: Answer, ends_in_text: bool = False) -> None:
        self._answers = answers
        self._otherwise = otherwise
        self._ends_in_text = ends_in_text
        self.asked: list[Formula] = []
        self._known: dict[Formula, bool] = {}
        self.told: list[Formula] = []

    def ask(self, question: Formula) -> bool:
        """The condition's outcome on this branch. A condition tested before keeps its answer."""
        if question not in self._known:
            if self._ends_in_text and self.told:
                return self._otherwise(question)
            place = len(self.asked)
            self.asked.append(question)
            given = place < len(self._answers)
            self._known[question] = self._answers[place] if given else self._otherwise(question)
        return self._known[question]

    def tell(self, formula: Formula) -> str:
        """A placeholder for the number in a text."""
        self.told.append(formula)
        return f"{OPEN}{len(self.told) - 1}{CLOSE}"


_Operator = Callable[[Any, Any], Any]


def _operator(operation: str) -> tuple[_Operator, _Operator]:
    """The methods of a Symbol on the left of the operator, and of one on the right."""
    return (
        lambda self, other: self._make(operation, other),
        lambda self, other: self._make(operation, other, True),
    )


class Symbol:
    """An integer, or with `real` a float, that has no value yet."""

    def __init__(self, walk: Walk, formula: Formula, real: bool = False) -> None:
        self.walk = walk
        self.formula = formula
        self._real = real

    def _formula_of(self, other: Any) -> Formula | None:
        if isinstance(other, Symbol):
            return other.formula
        if isinstance(other, (bool, int)) or (self._real and isinstance(other, float)):
            return Formula("constant", (other if isinstance(other, float) else int(other),))
        return None

    def _make(self, operation: str, other: Any, swapped: bool = False) -> Any:
        formula = self._formula_of(other)
        if formula is None or self._real or (isinstance(other, Symbol) and other._real):
            return NotImplemented
        parts = (formula, self.formula) if swapped else (self.formula, formula)
        return Symbol(self.walk, simplified(Formula(operation, parts)))

    __add__, __radd__ = _operator("+")
    __sub__, __rsub__ = _operator("-")
    __mul__, __rmul__ = _operator("*")
    __floordiv__, __rfloordiv__ = _operator("//")
    __mod__, __rmod__ = _operator("%")

    def smaller(self, other: Any) -> Any:
        return self._make("smaller", other)

    def gcd(self, other: Any) -> Any:
        return self._make("gcd", other)

    def __neg__(self) -> Any:
        return self._make("-", 0, True)

    def _compare(self, operation: str, other: Any) -> Any:
        formula = self._formula_of(other)
        if formula is None:
            return NotImplemented
        if formula == self.formula:
            return operation in ("==", "<=")
        return self.walk.ask(Formula(operation, (self.formula, formula)))

    def __eq__(self, other: Any) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: Any) -> Any:
        equal = self._compare("==", other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        at_most = self._compare("<=", other)
        return at_most if at_most is NotImplemented else not at_most

    def __ge__(self, other: Any) -> Any:
        less = self._compare("<", other)
        return less if less is NotImplemented else not less

    def __hash__(self) -> int:
        return 0  # any two may be equal, which a set then asks

    def __bool__(self) -> bool:
        return not self.walk.ask(Formula("==", (self.formula, Formula("constant", (0,)))))

    def __repr__(self) -> str:
        return self.walk.tell(self.formula)

    def __format__(self, spec: str) -> str:
        return repr(self)


def explore(
    rule: Callable[[Walk], T],
    settled: Callable[[ForkEnd[T]], bool] | None = None,
    known: Sequence[Answer] = (),
    ends_in_text: bool = False,
) -> Fork[T] | ForkEnd[T]:
    """Runs a rule along every branch, with symbolic arguments from the Walk. Raises TooManyWaysError.

    ends_in_text: as a Walk has it.

    settled: ends that need not be told apart. With it, a way is followed no further if it comes to such an end with the
    answers of every one of `known` to the questions that are left.
    """
    left = [_MOST_WAYS]

    def run(answers: tuple[bool, ...], otherwise: Answer) -> tuple[Walk, ForkEnd[T]]:
        left[0] -= 1
        if left[0] < 0:
            raise TooManyWaysError(f"it takes more than {_MOST_WAYS} ways")
        way = Walk(answers, otherwise, ends_in_text)
        value, failure = None, ""
        try:
            value = rule(way)
        except Exception as error:  # of the user's rule: a way that it refuses
            failure = f"{type(error).__name__}: {error}"
        return way, ForkEnd(value, failure, tuple(way.told))

    def is_settled(answers: tuple[bool, ...]) -> bool:
        if settled is None or not known:
            return False
        return all(settled(run(answers, answer)[1]) for answer in known)

    def walk(answers: tuple[bool, ...]) -> Fork[T] | ForkEnd[T]:
        way, end = run(answers, known[0] if known else _yes)
        if len(way.asked) <= len(answers) or is_settled(answers):
            return end
        question = way.asked[len(answers)]
        return Fork(question, walk((*answers, True)), walk((*answers, False)))

    return walk(())


def _yes(_question: Formula) -> bool:
    return True
