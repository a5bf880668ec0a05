"""Searches the recipe of the fastest engine whose error stays within a bound. Knows nothing of TensorRT.

What builds, runs and times engines is a Lab. Every comparison of times is a pair, timed in turn: a shared machine changes
both. A recipe counts as faster only beyond the noise of the pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

from trtsmith.importers.counted import counted

R = TypeVar("R", bound=Hashable)

WIDTH = 8
"""Engines that are made side by side."""


@dataclass(frozen=True)
class EngineTrial(Generic[R]):
    """One engine, measured.

    failed: why there is no engine, or why its outputs are no result; "" otherwise.
    used:   the share of the bound that the error of the worst output takes; above 1 it is beyond the bound.
    ms:     median latency. error: of the worst output. size, memory: in bytes.
    """

    recipe: R
    failed: str = ""
    used: float = math.inf
    ms: float = math.inf
    error: float = math.inf
    size: int = 0
    memory: int = 0

    @property
    def right(self) -> bool:
        return not self.failed and self.used <= 1.0


@dataclass(frozen=True)
class Ratio:
    """The time of one engine over that of another, timed in turn: the median of all rounds, and how far they spread."""

    median: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        return self.high < 1.0

    @property
    def is_slower(self) -> bool:
        return self.low > 1.0


class Lab(Protocol[R]):
    """Makes engines, and measures them."""

    def measure(self, recipes: Sequence[R]) -> list[EngineTrial[R]]:
        """Builds them, several at once, and measures one after another on the samples of the search."""

    def ratio(self, recipe: R, other: R) -> Ratio:
        """The time of one over the other's. Both were measured."""

    def used_elsewhere(self, recipe: R) -> float:
        """`used` on samples that the search did not see, and at the other places of the profile; 0 without any."""

    def is_over(self) -> bool:
        """Whether no time is left."""


@dataclass(frozen=True)
class Move(Generic[R]):
    """A change that may make engines faster. worth: how much it may bring, by which moves are ordered."""

    name: str
    change: Callable[[R], R]
    worth: float = 1.0


@dataclass(frozen=True)
class Repair(Generic[R]):
    """How an engine whose error is beyond the bound comes back within it: units that are computed in float32.

    start: the recipe with too large an error. units: may be made accurate, in graph order. accurate: the recipe in which
        these are.
    """

    start: R
    units: Sequence[str]
    accurate: Callable[[R, Sequence[str]], R]


@dataclass
class SearchResult(Generic[R]):
    """best: None where no engine was within the bound. trials: all that were measured, in order."""

    best: EngineTrial[R] | None = None
    trials: list[EngineTrial[R]] = field(default_factory=list)

    def fastest(self) -> list[EngineTrial[R]]:
        """Engines that no other beats in time and error both, the fastest first."""
        made = sorted((t for t in self.trials if not t.failed), key=lambda t: (t.ms, t.error))
        shown: list[EngineTrial[R]] = []
        for one in made:
            if not shown or one.error < shown[-1].error:
                shown.append(one)
        return shown


class RecipeSearch(Generic[R]):
    """One search. `found` is what is known so far, also where it ends early."""

    def __init__(self, lab: Lab[R], tell: Callable[[str], None]) -> None:
        self.found: SearchResult[R] = SearchResult()
        self._lab, self._tell = lab, tell
        self._known: dict[R, EngineTrial[R]] = {}
        self._default: R | None = None

    def run(
        self,
        bases: Sequence[R],
        moves: Callable[[R], Sequence[Move[R]]],
        repair: Callable[[R], Repair[R] | None],
    ) -> None:
        """Measures `bases`, repairs the fastest if it is beyond the bound, and goes on from the best by `moves`.

        bases: the first is the default, which is beaten only by what is faster than it beyond the noise.
        moves, repair: of a recipe; None: nothing repairs it.
        """
        self._default = bases[0]
        self._measure(bases)
        self._settle()
        failed = [t for t in self._measured(bases) if t.failed]
        beyond = [t for t in self._measured(bases) if not t.failed and not t.right and self._promises(t)]
        for trial in sorted(beyond or failed, key=lambda t: t.ms)[:1]:
            way = repair(trial.recipe)
            if way is not None:
                shortest = self._repair(way)
                self._settle()
                self._prefer(shortest, bases)
        self._descend(bases, moves)
        self._confirm(bases)

    def _measured(self, recipes: Sequence[R]) -> list[EngineTrial[R]]:
        return [self._known[one] for one in recipes if one in self._known]

    def _measure(self, recipes: Sequence[R]) -> list[EngineTrial[R]]:
        """The trials of these recipes, of which those that are known are not made again."""
        new = [one for one in dict.fromkeys(recipes) if one not in self._known]
        for begin in range(0, len(new), WIDTH):
            if self._lab.is_over():
                break
            for trial in self._lab.measure(new[begin : begin + WIDTH]):
                self._known[trial.recipe] = trial
                self.found.trials.append(trial)
                if trial.right and self.found.best is None:
                    self.found.best = trial
        return self._measured(recipes)

    def _promises(self, trial: EngineTrial[R]) -> bool:
        """Whether it is faster than the best, in a duel: with nodes in float32 it is slower than now."""
        best = self.found.best
        if best is None or trial.ms >= best.ms:
            return best is None
        return not self._lab.is_over() and self._lab.ratio(trial.recipe, best.recipe).is_faster

    def _settle(self) -> None:
        """The best of all that are right: the default, unless another is faster than it in a duel."""
        right = sorted((t for t in self.found.trials if t.right), key=lambda t: t.ms)
        if not right:
            return
        best = next((t for t in right if t.recipe == self._default), right[0])
        for other in right:
            if self._lab.is_over() or other.ms > best.ms * NEAR:
                break
            if other is best:
                continue
            if self._lab.ratio(other.recipe, best.recipe).is_faster:
                best = other
        self.found.best = best

    def _prefer(self, shortest: R, bases: Sequence[R]) -> None:
        """Takes this recipe of a repair for the best one, unless that is a base, or faster.

        Others of the repair list more nodes in float32, which may make the same engine.
        """
        best, trial = self.found.best, self._known.get(shortest)
        if best is None or best.recipe in bases or trial is None or not trial.right or self._lab.is_over():
            return
        if best is not trial and not self._lab.ratio(best.recipe, shortest).is_faster:
            self.found.best = trial

    def _descend(self, bases: Sequence[R], moves: Callable[[R], Sequence[Move[R]]]) -> None:
        """Takes moves from the best engine, and from the other bases that are nearly as fast."""
        best = self.found.best
        if best is None:
            return
        near = [t for t in self._measured(bases) if t.right and t is not best and t.ms <= best.ms * NEAR]
        for start in (best, *near):
            end, best = self._moved(start, moves), self.found.best
            if end is best or best is None or end is start or self._lab.is_over():
                continue
            if self._lab.ratio(end.recipe, best.recipe).is_faster:
                self.found.best = end

    def _moved(self, best: EngineTrial[R], moves: Callable[[R], Sequence[Move[R]]]) -> EngineTrial[R]:
        """Takes moves, several at a time, as long as one makes the engine faster and it stays right."""
        tried: set[str] = set()
        while not self._lab.is_over():
            left = sorted((m for m in moves(best.recipe) if m.name not in tried), key=lambda m: -m.worth)
            if not left:
                break
            batch = left[:WIDTH]
            tried.update(move.name for move in batch)
            self._measure([move.change(best.recipe) for move in batch])
            better = [(move, found) for move in batch if (found := self._better(move, best)) is not None]
            if not better:
                continue
            better.sort(key=lambda pair: pair[1].ms)
            first = better[0][1]
            if len(better) > 1:
                together = best.recipe
                for move, _ in better:
                    together = move.change(together)
                for trial in self._measure([together]):
                    if trial.right and self._lab.ratio(trial.recipe, first.recipe).is_faster:
                        first = trial
            if first is better[0][1]:
                tried -= {move.name for move, _ in better[1:]}  # from there they may bring something still
            if self.found.best is best:
                self.found.best = first
            best = first
            self._tell(f"{best.ms:.3g} ms, error {best.error:.1e}: {better[0][0].name}")
        return best

    def _better(self, move: Move[R], best: EngineTrial[R]) -> EngineTrial[R] | None:
        """The engine with the move, if it is right and faster. It was measured, unless the time was over."""
        trial = self._known.get(move.change(best.recipe))
        if trial is None or not trial.right or trial.recipe == best.recipe or trial.ms > best.ms * NEAR:
            return None
        return trial if self._lab.ratio(trial.recipe, best.recipe).is_faster else None

    def _repair(self, way: Repair[R]) -> R:
        """The recipe of the fewest units in float32 with which the error is within the bound, as far as time allows.

        Whole groups of units are let go. It is not right where all units in float32 are beyond the bound.
        """
        kept = list(way.units)
        if not self._within(way, [kept]):
            return way.accurate(way.start, kept)
        parts = 2
        while kept and not self._lab.is_over():
            chunks = list(_chunks(kept, parts))
            without = [_less(kept, chunk) for chunk in chunks]
            right = self._within(way, without)
            gone = [chunk for chunk, rest in zip(chunks, without, strict=True) if rest in right]
            together = _less(kept, [unit for chunk in gone for unit in chunk])
            if len(gone) > 1 and self._within(way, [together]):
                kept, parts = together, max(parts - len(gone), 2)
            elif gone:
                kept, parts = _less(kept, max(gone, key=len)), max(parts - 1, 2)
            elif parts >= len(kept):
                break
            else:
                parts = min(2 * parts, len(kept))
            self._tell(
                f"{len(kept)} of {counted(len(way.units), 'node')} in float32: the error is within the bound"
            )
        return way.accurate(way.start, kept)

    def _within(self, way: Repair[R], several: Sequence[list[str]]) -> list[list[str]]:
        """Of several sets of units, those with which the engine is right."""
        recipes = [way.accurate(way.start, units) for units in several]
        self._measure(recipes)
        right = {one for one in recipes if one in self._known and self._known[one].right}
        return [units for units, recipe in zip(several, recipes, strict=True) if recipe in right]

    def _confirm(self, bases: Sequence[R]) -> None:
        """Takes back an engine that is beyond the bound on other samples, or slower than a base that is right."""
        refused: set[R] = set()
        while self.found.best is not None and not self._lab.is_over():
            best = self.found.best
            if self._lab.used_elsewhere(best.recipe) > 1.0:
                self._tell(f"{best.ms:.3g} ms: {BEYOND_UNSEEN}")
                refused.add(best.recipe)
                right = [t for t in self.found.trials if t.right and t.recipe not in refused]
                self.found.best = min(right, key=lambda t: t.ms, default=None)
                continue
            slower = next(
                (
                    base
                    for base in self._measured(bases)
                    if base.right
                    and base.recipe not in {best.recipe, *refused}
                    and self._lab.ratio(best.recipe, base.recipe).is_slower
                ),
                None,
            )
            if slower is None:
                break
            refused.add(best.recipe)
            self.found.best = slower
        self.found.trials = [
            replace(t, failed=BEYOND_UNSEEN)
            if t.recipe in refused and t.right and self._lab.used_elsewhere(t.recipe) > 1.0
            else t
            for t in self.found.trials
        ]


NEAR = 1.1
"""Engines whose single times are this far apart are not timed in turn."""

BEYOND_UNSEEN = "beyond the bound on samples that the search did not see"


def _chunks(units: Sequence[str], parts: int) -> Iterator[list[str]]:
    parts = min(parts, len(units))
    edges = [len(units) * i // parts for i in range(parts + 1)]
    for begin, end in pairwise(edges):
        yield list(units[begin:end])


def _less(units: Sequence[str], chunk: Sequence[str]) -> list[str]:
    gone = set(chunk)
    return [unit for unit in units if unit not in gone]
