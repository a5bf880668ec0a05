"""The timed loop on fake streams, with a clock that only they advance; statistics against known numbers."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

import pytest

from trtsmith.converter.bench.timing import DEPTH, Stages, Summary, drive, remarks, respond, summarise


@dataclass
class Machine:
    """The time, and the moment at which the GPU will have done all that it was given."""

    now: float = 100.0
    busy_until: float = 0.0

    def clock(self) -> float:
        return self.now


@dataclass
class FakeLane:
    """Takes enqueue_s of the host and h2d, compute, d2h (s) of one GPU that all lanes share."""

    machine: Machine
    enqueue_s: float
    stages_s: tuple[float, float, float]
    ends: dict[int, float] = field(default_factory=dict)
    most_in_flight: int = 0

    def submit(self, slot: int) -> None:
        assert slot not in self.ends, "the slot's last inference was not waited for"
        self.machine.now += self.enqueue_s
        self.machine.busy_until = max(self.machine.now, self.machine.busy_until) + sum(self.stages_s)
        self.ends[slot] = self.machine.busy_until
        self.most_in_flight = max(self.most_in_flight, len(self.ends))

    def wait(self, slot: int) -> Stages:
        self.machine.now = max(self.machine.now, self.ends.pop(slot))
        h2d, compute, d2h = (seconds * 1e3 for seconds in self.stages_s)
        return Stages(h2d, compute, d2h)


def test_a_gpu_that_is_the_limit_has_no_gaps() -> None:
    machine = Machine()
    lane = FakeLane(machine, 0.001, (0.002, 0.006, 0.002))
    run = drive([lane], machine.clock, 1.0, 1)
    # 0.01 s of the GPU each; while one runs the next is enqueued, so only the first enqueue is seen.
    assert run.wall_s == pytest.approx(0.001 + len(run.queries) * 0.01)
    assert 1.0 <= run.wall_s <= 1.0 + 0.03
    assert lane.most_in_flight == DEPTH and not lane.ends


def test_a_host_that_is_the_limit_sets_the_pace() -> None:
    machine = Machine()
    run = drive([FakeLane(machine, 0.005, (0.0, 0.001, 0.0))], machine.clock, 0.5, 1)
    assert run.wall_s / len(run.queries) == pytest.approx(0.005, rel=0.02)
    figures = summarise(run, [6.0], 4)
    assert figures["throughput"] == pytest.approx(200, rel=0.02)
    assert figures["samples_per_s"] == pytest.approx(4 * figures["throughput"], rel=1e-5)
    assert figures["enqueue_ms"]["median"] == pytest.approx(5.0)
    assert figures["compute_ms"]["median"] == figures["latency_ms"]["median"] == pytest.approx(1.0)


def test_streams_take_turns() -> None:
    machine = Machine()
    lanes = [FakeLane(machine, 0.001, (0.0, 0.010, 0.0)) for _ in range(3)]
    run = drive(lanes, machine.clock, 0.0, 30)
    assert len(run.queries) == 30
    assert [lane.most_in_flight for lane in lanes] == [DEPTH] * 3


@pytest.mark.parametrize(("seconds", "least", "expected"), [(0.0, 7, 7), (0.1, 1, 10), (0.1, 50, 50)])
def test_it_ends_when_both_the_time_and_the_number_are_reached(
    seconds: float, least: int, expected: int
) -> None:
    machine = Machine()
    run = drive([FakeLane(machine, 0.0, (0.0, 0.01, 0.0))], machine.clock, seconds, least)
    assert expected <= len(run.queries) <= expected + DEPTH


def test_latency_is_the_sum_of_copies_and_compute_and_response_counts_the_host_too() -> None:
    machine = Machine()
    lane = FakeLane(machine, 0.004, (0.002, 0.005, 0.001))
    run = drive([lane], machine.clock, 0.0, 10)
    figures = summarise(run, respond(lane, machine.clock, 5), 1)
    assert figures["latency_ms"]["mean"] == pytest.approx(8.0)
    assert figures["response_ms"]["count"] == 5
    assert figures["response_ms"]["max"] == pytest.approx(12.0)
    assert [figures[f"{n}_ms"]["median"] for n in ("h2d", "compute", "d2h")] == pytest.approx([2.0, 5.0, 1.0])


def test_the_summary_of_known_numbers() -> None:
    times = [float(n) for n in (*range(100, 0, -1), 101)]  # 1 to 101: the p-th percentile is p + 1
    summary = Summary.of(times)
    assert (summary.min, summary.median, summary.mean, summary.max) == (1.0, 51.0, 51.0, 101.0)
    assert (summary.p90, summary.p95, summary.p99) == (91.0, 96.0, 100.0)
    assert summary.variation == pytest.approx(statistics.pstdev(times) / statistics.fmean(times))
    assert Summary.of([0.0, 0.0]).variation == 0.0
    assert Summary.of([3.0]).p99 == 3.0
    with pytest.raises(ValueError, match="no times"):
        Summary.of([])


def figures_of(enqueue: float, computes: list[float], h2d: float = 0.0) -> dict[str, object]:
    summary = {
        name: Summary.of([value]).to_json() for name, value in (("enqueue_ms", enqueue), ("h2d_ms", h2d))
    }
    return {
        **summary,
        "d2h_ms": Summary.of([0.0]).to_json(),
        "compute_ms": Summary.of(computes).to_json(),
        "cuda_graph": False,
        "transfers": True,
    }


def test_remarks_name_what_limits() -> None:
    assert remarks(figures_of(0.1, [1.0] * 20)) == []
    assert "unstable: its coefficient of variation is 33.3%" in remarks(figures_of(0.1, [1.0, 2.0]))[0]
    assert "the host takes 0.9 ms" in remarks(figures_of(0.9, [1.0] * 3))[0]
    assert "a CUDA graph takes" in remarks(figures_of(0.9, [1.0] * 3))[0]
    assert "run it with more work" in remarks(figures_of(0.9, [1.0] * 3) | {"cuda_graph": True})[0]
    assert (
        "copying inputs to the GPU takes longer (1.5 ms)" in remarks(figures_of(0.1, [1.0] * 3, h2d=1.5))[0]
    )
    steady = figures_of(0.1, [1.0] * 3, h2d=1.5) | {"transfers": False}
    assert remarks(steady) == []


def test_json_keeps_six_digits() -> None:
    assert Summary.of([1 / 3]).to_json()["median"] == 0.333333
    assert math.isfinite(Summary.of([1e-7, 2e-7]).to_json()["variation"])
