"""Times several ways to run one network in turn, between events on one stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any

import torch

ROUNDS = 5
"""Every way runs in each of them, so that a change of clocks meets all."""

WARM = 10
LEAST, MOST = 8, 60
"""Runs of a way in one round."""

SLOW = 2
"""Runs in one round of a way that takes longer than a round for one, such as a loop over tokens in Python."""

ROUND_MS = 120.0
"""That the runs of a way in one round take about."""


def medians(ways: Mapping[str, Callable[[], Any]]) -> dict[str, dict[str, float]]:
    """Milliseconds of each way: {"median_ms", "p10_ms", "p90_ms", "runs"}.

    A way enqueues one inference on the current stream. Inferences are enqueued back to back, each between two events: a way
    that keeps the GPU waiting for the host is charged for that.
    """
    counts = {name: _count(run) for name, run in ways.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            taken[name] += _round(run, counts[name])
    return {name: _figures(times) for name, times in taken.items()}


def _round(run: Callable[[], Any], count: int) -> list[float]:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    run()
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairwise(events)]


def _count(run: Callable[[], Any]) -> int:
    if _round(run, 1)[0] > ROUND_MS:
        return SLOW
    times = _round(run, WARM)
    return max(LEAST, min(MOST, int(ROUND_MS / max(median(times), 1e-3))))


def _figures(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    tenth = len(ordered) // 10
    return {
        "median_ms": round(median(ordered), 5),
        "p10_ms": round(ordered[tenth], 5),
        "p90_ms": round(ordered[-1 - tenth], 5),
        "runs": len(ordered),
    }
