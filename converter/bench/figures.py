"""Summarises repeated times: statistics, and warnings about a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
        """ValueError for none at all."""
        if not milliseconds:
            raise ValueError("no times")
        times = np.asarray(milliseconds, np.float64)
        median, p90, p95, p99 = (float(value) for value in np.percentile(times, (50, 90, 95, 99)))
        mean = float(times.mean())
        variation = float(times.std()) / mean if mean else 0.0
        return cls(len(times), float(times.min()), median, mean, p90, p95, p99, float(times.max()), variation)

    def to_json(self) -> dict[str, float]:
        """The times to six digits: a microsecond of a second is the most that the clocks tell."""
        return {name: value if name == "count" else digits6(value) for name, value in vars(self).items()}


def digits6(value: float) -> float:
    return float(f"{value:.6g}")


def remarks(run: Mapping[str, Any]) -> list[str]:
    """What the times of one run (a record's `runs`, see converter/bench/bench_record.py) say beyond themselves."""
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
