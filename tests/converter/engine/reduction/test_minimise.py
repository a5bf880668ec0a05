"""The search for a smallest set of nodes that fails, with functions in TensorRT's place."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from trtsmith.converter.engine.reduction.minimise import SMALL, Nodes, around, narrowed, thinned

NONE: Nodes = frozenset()


def failing_with(
    culprits: set[int], asked: list[int] | None = None
) -> Callable[[Sequence[Nodes]], Nodes | None]:
    """What is tried fails if all the culprits are in it."""

    def tried(sets: Sequence[Nodes]) -> Nodes | None:
        if asked is not None:
            asked.append(len(sets))
        return next((nodes for nodes in sets if culprits <= nodes), None)

    return tried


def minimal(count: int, culprits: set[int], asked: list[int] | None = None) -> Nodes:
    tried = failing_with(culprits, asked)
    return thinned(narrowed(frozenset(range(count)), tried, small=SMALL), tried)


@pytest.mark.parametrize("culprits", [{0}, {2999}, {1500}, {1499, 1500, 1501}, {700, 730}, {0, 2999}])
def test_nothing_but_the_culprits_is_left(culprits: set[int]) -> None:
    assert minimal(3000, culprits) == culprits


def test_culprits_anywhere() -> None:
    pick = random.Random(0)
    for _ in range(20):
        count = pick.randint(1, 400)
        culprits = set(pick.sample(range(count), pick.randint(1, min(4, count))))
        assert minimal(count, culprits) == culprits


def test_one_of_3000_nodes_takes_few_trials() -> None:
    asked: list[int] = []
    minimal(3000, {1234}, asked)
    assert sum(asked) <= 60


def test_what_never_fails_again_stays_as_it_is() -> None:
    """As when the time is up: what was found last is kept, and the search ends."""
    whole = frozenset(range(500))
    assert narrowed(whole, lambda sets: None) == whole
    assert thinned(whole, lambda sets: None) == whole


def test_sets_that_grow_when_they_are_tried_do_no_harm() -> None:
    """A node that cannot be cut off comes back with what it needs."""

    def tried(sets: Sequence[Nodes]) -> Nodes | None:
        grown = [nodes | {number - 1 for number in nodes if number % 2} for nodes in sets]
        return next((nodes for nodes in grown if 101 in nodes), None)

    whole = frozenset(range(200))
    assert thinned(narrowed(whole, tried, small=SMALL), tried) == {100, 101}


def test_only_candidates_are_taken_out() -> None:
    whole = frozenset(range(30))
    assert thinned(whole, failing_with({3}), range(10)) == {3, *range(10, 30)}


def test_bodies_come_with_their_nodes() -> None:
    """Windows are of outer nodes: 1000 to 1099 are inside the node 50."""
    bodies = frozenset(range(1000, 1100))
    seen: list[Nodes] = []

    def tried(sets: Sequence[Nodes]) -> Nodes | None:
        seen.extend(sets)
        return next((nodes for nodes in sets if {50, 1050} <= nodes), None)

    def whole(nodes: Nodes) -> Nodes:
        return nodes | bodies if 50 in nodes else nodes

    left = narrowed(frozenset(range(200)) | bodies, tried, bodies, whole, SMALL)
    assert len(left - bodies) <= SMALL and bodies <= left
    assert all(bodies <= nodes if 50 in nodes else bodies.isdisjoint(nodes) for nodes in seen)


def test_around_grows_until_there_is_too_much() -> None:
    def neighbours(nodes: Nodes) -> set[int]:
        return {n + d for n in nodes for d in (-1, 1) if 0 <= n + d < 100}

    sizes = [len(nodes) for nodes in around(frozenset({50}), neighbours, 9)]
    assert sizes == [1, 3, 5, 9]
    assert [*around(NONE, neighbours, 9)] == []
    assert [len(n) for n in around(frozenset({0}), lambda nodes: set(), 9)] == [1]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_the_run_that_is_needed_is_found(count: int) -> None:
    for first, last in itertools.combinations_with_replacement(range(count), 2):
        asked: list[int] = []
        tried = failing_with({first, last}, asked)
        assert narrowed(frozenset(range(count)), tried) == frozenset(range(first, last + 1))
        assert sum(asked) <= 5 * count.bit_length()


def test_of_several_that_would_do_one_that_was_tried_comes_back() -> None:
    def tried(sets: Sequence[Nodes]) -> Nodes | None:
        return next((nodes for nodes in sets if nodes & {3, 7}), None)

    assert narrowed(frozenset(range(10)), tried) == {7}
