"""Keeps inferences in flight on one or several streams and times them, as trtexec does.

On every stream the next inference is enqueued before the last one is waited for: enqueue 0, enqueue 1, wait for 0,
enqueue 2, wait for 1, and so on. So the GPU has work while the host prepares more. What touches the GPU is behind the
Lane protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Protocol

import numpy as np

UNSTABLE = 0.01
"""Coefficient of variation above which GPU compute times are called unstable; trtexec's threshold."""

ENQUEUE_BOUND = 0.8
"""Ratio of enqueue time to GPU compute time above which the host may be what limits the throughput; trtexec's."""


@dataclass(frozen=True)
class Summary:
    """Statistics of single times, in milliseconds. Percentiles interpolate between the two nearest times.

    variation: coefficient of variation: the standard deviation of the times over their mean; 0 where all are 0.
    """

    count: int
    min: float
    median: float
    mean: float
    p90: float
    p95: float
    p99: float
    max: float
    variation: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Summary:
        """Computes the statistics. Raises ValueError for an empty list."""
        if not milliseconds:
            raise ValueError("no times")
        times = np.asarray(milliseconds, np.float64)
        median, p90, p95, p99 = (float(value) for value in np.percentile(times, (50, 90, 95, 99)))
        mean = float(times.mean())
        variation = float(times.std()) / mean if mean else 0.0
        return cls(len(times), float(times.min()), median, mean, p90, p95, p99, float(times.max()), variation)

    def to_json(self) -> dict[str, float]:
        """Returns the times to six digits: the clocks tell no more than a microsecond of a second."""
        return {name: value if name == "count" else digits6(value) for name, value in vars(self).items()}


def digits6(value: float) -> float:
    return float(f"{value:.6g}")


def remarks(run: Mapping[str, Any]) -> list[str]:
    """Lists remarks on the times of one run (`runs` in converter/bench/bench_record.py)."""
    compute, enqueue = run["compute_ms"], run["enqueue_ms"]
    said = []
    if compute["variation"] > UNSTABLE:
        said.append(
            f"GPU compute time is unstable: its coefficient of variation is {compute['variation']:.1%}; lock the clocks "
            "(nvidia-smi --lock-gpu-clocks), keep others off the GPU, or time for longer (--duration-s)"
        )
    if enqueue["median"] > ENQUEUE_BOUND * compute["median"]:
        fix = "run it with more work at a time" if run["cuda_graph"] else "a CUDA graph takes most of it away"
        said.append(
            f"the host takes {enqueue['median']:.3g} ms to enqueue what the GPU computes in {compute['median']:.3g} ms: "
            f"the throughput may be the host's; {fix}"
        )
    for name, what in (("h2d_ms", "copying inputs to"), ("d2h_ms", "copying outputs from")):
        if run["transfers"] and run[name]["median"] > compute["median"]:
            said.append(
                f"{what} the GPU takes longer ({run[name]['median']:.3g} ms) than computing "
                f"({compute['median']:.3g} ms); --no-transfers leaves it out"
            )
    return said


DEPTH = 2
"""Inferences in flight on each stream."""

Clock = Callable[[], float]
"""Seconds of the host, such as time.perf_counter."""


@dataclass(frozen=True)
class Stages:
    """Milliseconds between the events of one inference, on the GPU's clock."""

    h2d: float
    compute: float
    d2h: float


@dataclass(frozen=True)
class Query:
    """One inference. enqueue: milliseconds of the host until all of it was handed to the GPU."""

    enqueue: float
    stages: Stages


class Lane(Protocol):
    """One stream with an execution context of its own, and DEPTH sets of events."""

    def submit(self, slot: int) -> None:
        """Enqueues copies in, the engine and copies out, between the events of this slot. Does not wait."""

    def wait(self, slot: int) -> Stages:
        """Waits until the inference that was last submitted to this slot has ended."""


@dataclass(frozen=True)
class TimedRun:
    """Inferences in the order in which they were enqueued.

    wall_s: from the moment in which the first is enqueued to that in which the last has ended.
    """

    queries: tuple[Query, ...]
    wall_s: float


def drive(lanes: Sequence[Lane], clock: Clock, seconds: float, least: int) -> TimedRun:
    """Run inferences for at least the given seconds and number; all have ended when it returns."""
    flying: deque[tuple[Lane, int, float]] = deque()
    queries: list[Query] = []
    began = clock()
    for submitted, (slot, lane) in enumerate(cycle([(s, lane) for s in range(DEPTH) for lane in lanes])):
        if len(flying) == DEPTH * len(lanes):
            queries.append(_ended(*flying.popleft()))
        now = clock()
        if submitted >= least and now - began >= seconds:
            break
        lane.submit(slot)
        flying.append((lane, slot, (clock() - now) * 1e3))
    queries.extend(_ended(*one) for one in flying)
    return TimedRun(tuple(queries), clock() - began)


def _ended(lane: Lane, slot: int, enqueue: float) -> Query:
    return Query(enqueue, lane.wait(slot))


def respond(lane: Lane, clock: Clock, count: int) -> list[float]:
    """Measures the latency in milliseconds of single inferences, one at a time."""
    taken = []
    for _ in range(count):
        began = clock()
        lane.submit(0)
        lane.wait(0)
        taken.append((clock() - began) * 1e3)
    return taken


def summarise(run: TimedRun, response: Sequence[float], batch: int) -> dict[str, Any]:
    """Statistics of a run, as converter/bench/bench_record.py defines them."""
    columns = {
        "latency_ms": [q.stages.h2d + q.stages.compute + q.stages.d2h for q in run.queries],
        "enqueue_ms": [q.enqueue for q in run.queries],
        "h2d_ms": [q.stages.h2d for q in run.queries],
        "compute_ms": [q.stages.compute for q in run.queries],
        "d2h_ms": [q.stages.d2h for q in run.queries],
        "response_ms": response,
    }
    rate = len(run.queries) / run.wall_s
    return {
        "queries": len(run.queries),
        "wall_s": digits6(run.wall_s),
        "throughput": digits6(rate),
        "samples_per_s": digits6(rate * batch),
        **{name: Summary.of(times).to_json() for name, times in columns.items()},
    }
