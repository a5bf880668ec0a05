"""The search of `trtsmith tune` on made-up engines: groups that interact, noise, failures, a clock that runs out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from trtsmith.converter.tune.search import EngineTrial, Move, Ratio, RecipeSearch, Repair, SearchResult

Recipe = tuple[str, frozenset[str]]
"""A base, and its units in float32."""

NOISE = 0.01


@dataclass
class World:
    """Engines of units. In a base, a unit takes time and adds error, less of it in float32; pairs interact.

    until: how many engines there is time for.
    """

    seed: int
    until: int = 10_000
    asked: list[Recipe] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng = np.random.default_rng(self.seed)
        count = int(rng.integers(1, 12))
        self.units = tuple(f"unit{i}" for i in range(count))
        self.gain = dict(zip(self.units, rng.uniform(-0.2, 1.0, count), strict=True))
        lost = rng.exponential(0.3, count) * (rng.random(count) < 0.5)
        self.harm = {u: math.inf if rng.random() < 0.05 else x for u, x in zip(self.units, lost, strict=True)}
        pairs = np.argwhere(rng.random((count, count)) < 0.1)
        self.joined = [(self.units[i], self.units[j]) for i, j in pairs if i < j]
        self.broken = {name for name in ("half", "other") if rng.random() < 0.1}
        self.unlucky = float(rng.uniform(0.8, 1.6))

    def true_ms(self, recipe: Recipe) -> float:
        base, wide = recipe
        if base == "full":
            return 10.0
        saved = sum(gain for unit, gain in self.gain.items() if unit not in wide)
        cut = sum(0.15 for a, b in self.joined if (a in wide) != (b in wide))
        return (10.0 if base == "half" else 11.0) - saved + cut

    def true_used(self, recipe: Recipe) -> float:
        base, wide = recipe
        return 0.01 if base == "full" else 0.01 + sum(h for u, h in self.harm.items() if u not in wide)

    def measure(self, recipes: Sequence[Recipe]) -> list[EngineTrial[Recipe]]:
        self.asked += recipes
        return [self._trial(one) for one in recipes]

    def _trial(self, recipe: Recipe) -> EngineTrial[Recipe]:
        if recipe[0] in self.broken or (len(recipe[1]) == 3 and self.seed % 7 == 0):
            return EngineTrial(recipe, "TensorRT refuses it")
        used = self.true_used(recipe)
        return EngineTrial(
            recipe, used=used, ms=self.true_ms(recipe) * float(self.rng.normal(1, NOISE)), error=used
        )

    def ratio(self, recipe: Recipe, other: Recipe) -> Ratio:
        ratio = self.true_ms(recipe) / self.true_ms(other)
        rounds = sorted(ratio * self.rng.normal(1, NOISE / 2, 9))
        return Ratio(float(np.median(rounds)), float(rounds[1]), float(rounds[-2]))

    def used_elsewhere(self, recipe: Recipe) -> float:
        return self.true_used(recipe) * self.unlucky

    def is_over(self) -> bool:
        return len(self.asked) >= self.until


FULL: Recipe = ("full", frozenset())


def searched(world: World) -> SearchResult[Recipe]:
    search: RecipeSearch[Recipe] = RecipeSearch(world, lambda text: None)
    default: Recipe = ("half", frozenset(world.units[::2]))

    def moves(recipe: Recipe) -> list[Move[Recipe]]:
        def less(unit: str) -> Move[Recipe]:
            return Move(unit, lambda r: (r[0], r[1] - {unit}), world.gain[unit])

        return [less(unit) for unit in sorted(recipe[1])]

    def repair(recipe: Recipe) -> Repair[Recipe] | None:
        return None if recipe[0] == "full" else Repair(recipe, world.units, lambda r, u: (r[0], frozenset(u)))

    search.run([default, FULL, ("other", frozenset())], moves, repair)
    return search.found


@pytest.mark.parametrize("seed", range(1000))
def test_the_result_is_within_the_bound_and_not_beaten(seed: int) -> None:
    world = World(seed)
    found = searched(world)
    if found.best is None:
        assert all(world.true_used(t.recipe) * world.unlucky > 1 or t.failed for t in found.trials)
        return
    recipe = found.best.recipe
    assert world.true_used(recipe) * max(world.unlucky, 1) <= 1
    for trial in found.trials:
        if trial.right and world.true_used(trial.recipe) * world.unlucky <= 1:
            assert world.true_ms(recipe) <= world.true_ms(trial.recipe) * (1 + 4 * NOISE)


@pytest.mark.parametrize("until", [1, 2, 5, 9, 20])
@pytest.mark.parametrize("seed", range(20))
def test_time_that_runs_out_leaves_the_best_so_far(seed: int, until: int) -> None:
    world = World(seed, until)
    found = searched(world)
    assert len(world.asked) <= until + 8
    assert (found.best is None) == (not any(t.right for t in found.trials))


def planted(wrong: set[str]) -> World:
    """Ten units, of which these overflow, and nothing else is lost; all gain the same."""
    world = World(3)
    world.units = tuple(f"unit{i}" for i in range(10))
    world.gain = dict.fromkeys(world.units, 0.5)
    world.harm = {unit: math.inf if unit in wrong else 0.0 for unit in world.units}
    world.joined, world.broken, world.unlucky = [], set(), 1.0
    return world


@pytest.mark.parametrize("wrong", [{"unit4"}, {"unit0", "unit9"}, {"unit2", "unit3", "unit7"}])
def test_units_that_overflow_are_found_and_no_others(wrong: set[str]) -> None:
    found = searched(planted(wrong))
    assert found.best is not None and found.best.recipe[1] == wrong


def test_an_engine_that_fails_is_repaired_if_no_other_is_beyond_the_bound() -> None:
    world = planted(set())
    failing = frozenset(world.units[::2])  # of the default
    trial = world._trial

    def refused(recipe: Recipe) -> EngineTrial[Recipe]:
        return EngineTrial(recipe, "not finite") if recipe == ("half", failing) else trial(recipe)

    world._trial = refused  # type: ignore[method-assign]
    world.gain = dict.fromkeys(world.units, 0.9)
    world.broken = {"other"}
    found = searched(world)
    assert found.best is not None and found.best.recipe[0] == "half"


def test_an_engine_that_is_fast_and_wrong_is_never_chosen() -> None:
    world = planted(set())
    world.harm["unit0"], world.gain["unit0"] = math.inf, 5.0
    found = searched(world)
    assert found.best is not None and "unit0" in found.best.recipe[1]


def test_what_is_no_faster_is_not_taken() -> None:
    """Of equal engines the first base stays, which is the default."""
    world = planted(set())
    world.gain = dict.fromkeys(world.units, 0.0)
    found = searched(world)
    assert found.best is not None and found.best.recipe == ("half", frozenset(world.units[::2]))


def test_ctrl_c_keeps_what_is_known() -> None:
    class Stopped(World):
        def measure(self, recipes: Sequence[Recipe]) -> list[EngineTrial[Recipe]]:
            if len(self.asked) > 3:
                raise KeyboardInterrupt
            return super().measure(recipes)

    search: RecipeSearch[Recipe] = RecipeSearch(Stopped(5), lambda text: None)
    units = Stopped(5).units

    def moves(recipe: Recipe) -> list[Move[Recipe]]:
        return [Move(unit, lambda r, unit=unit: ("other", r[1] | {unit})) for unit in (*units, "a", "b", "c")]

    bases = [FULL, ("half", frozenset(units)), *(("other", frozenset({unit})) for unit in units)]
    with pytest.raises(KeyboardInterrupt):
        search.run(bases, moves, lambda recipe: None)
    assert search.found.best is not None


def test_engines_that_others_beat_are_not_shown() -> None:
    found: SearchResult[str] = SearchResult(
        trials=[
            EngineTrial("slow", ms=3.0, error=1e-6, used=0.1),
            EngineTrial("fast", ms=1.0, error=1e-3, used=0.9),
            EngineTrial("beaten", ms=2.0, error=2e-3, used=1.2),
            EngineTrial("broken", "TensorRT refuses it"),
        ]
    )
    assert [t.recipe for t in found.fastest()] == ["fast", "slow"]
