"""Nodes have distinct places below their producers, in every layout."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Sequence

import pytest

from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.pages.network import placement
from trtsmith.converter.pages.network.placement import ROW, Placement, depths, placed, rows

Edges = list[tuple[int, int]]

HAVE_SUGIYAMA = importlib.util.find_spec("fast_sugiyama") is not None
layered = pytest.mark.skipif(
    not HAVE_SUGIYAMA, reason="fast-sugiyama is not installed (no wheel for Python 3.10)"
)


def random_edges(count: int, seed: int) -> Edges:
    """Of a network: each node reads one to three of the ten before it."""
    numbers = random.Random(seed)
    pairs = {
        (numbers.randrange(max(0, n - 10), n), n)
        for n in range(1, count)
        for _ in range(numbers.randint(1, 3))
    }
    return sorted(pairs)


def overlapping(place: Placement) -> list[tuple[int, int]]:
    """Pairs of nodes whose boxes of 152 by 34 meet."""
    found, by_row = [], {}
    for node, (x, y) in enumerate(place.places):
        for other, at in by_row.setdefault(y // 34, []):
            if abs(at[0] - x) < 152 and abs(at[1] - y) < 34:
                found.append((other, node))
        by_row[y // 34].append((node, (x, y)))
    return found


@pytest.fixture(params=[pytest.param("layered", marks=layered), "rows"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With fast-sugiyama, and as where it is not installed."""
    if request.param == "rows":
        monkeypatch.setattr(placement.importlib.util, "find_spec", lambda name: None)
    return str(request.param)


@pytest.mark.parametrize("seed", range(3))
def test_no_two_nodes_overlap(way: str, seed: int) -> None:
    edges = random_edges(300, seed)
    place = placed(300, edges)
    assert place.layered == (way == "layered")
    assert len(place.places) == 300
    assert overlapping(place) == []


def test_a_node_stands_below_what_it_reads(way: str) -> None:
    edges = random_edges(30, 1)  # one column
    place = placed(30, edges)
    assert [(s, t) for s, t in edges if place.places[s][1] >= place.places[t][1]] == []
    assert all(place.depth[s] < place.depth[t] for s, t in edges)


def test_a_deep_network_becomes_columns(way: str) -> None:
    place = placed(2000, [(n, n + 1) for n in range(1999)])
    xs, ys = ([p[axis] for p in place.places] for axis in (0, 1))
    width, height = max(xs) - min(xs), max(ys) - min(ys)
    assert 0.5 < width / height < 4
    assert overlapping(place) == []
    assert len(set(xs)) > 5


@pytest.mark.parametrize("count", [0, 1, 2])
def test_next_to_nothing_has_places_too(way: str, count: int) -> None:
    assert len(placed(count, []).places) == count


@layered
def test_edges_that_pass_rows_bend_around_the_nodes_there() -> None:
    edges: Sequence[tuple[int, int]] = [(0, 1), (1, 2), (2, 3), (0, 3)]
    place = placed(4, edges)
    (bend, *_) = place.bends[0, 3]
    assert bend[0] != place.places[1][0]
    assert place.places[0][1] < bend[1] < place.places[3][1]


@layered
def test_edges_over_the_whole_network_take_no_time() -> None:
    """Laid out they took minutes: each is as many bends as it passes rows."""
    count = 3000
    edges = [(n, n + 1) for n in range(count - 1)] + [(0, n) for n in range(2, count)]
    assert placed(count, sorted(edges), timeout_s=60).layered


@layered
def test_what_takes_too_long_or_dies_is_put_into_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*arguments: object, **named: object) -> None:
        raise ChildDied("died of SIGSEGV", "laying out", "", timed_out=False)

    monkeypatch.setattr(placement, "run_child", dies)
    place = placed(3, [(0, 1), (1, 2)])
    assert not place.layered and [y for _, y in place.places] == [0, ROW, 2 * ROW]


def test_depth_is_the_longest_way_and_constants_stand_with_their_readers() -> None:
    # 0 -> 1 -> 2 -> 3, 4 is read by 3 alone, 0 is read by 3 too
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (3, 5)]
    assert depths(6, edges) == [0, 1, 2, 3, 3, 4]
    assert len(set(rows(depths(6, edges), edges))) == 6
