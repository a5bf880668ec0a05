"""Judges whether a latency changed by more than noise.

Inferences of one run are no independent samples: clocks, temperature and the place of buffers shift all of them together, so
that a confidence interval of the median, made of one run, is far too narrow (Kalibera and Jones, "Rigorous Benchmarking in
Reasonable Time", ISMM 2013: repeat at the level that varies most, which is that of runs; here each side has one).
So no test of significance is made up of what one run cannot know. Two things have to hold instead:

- the new median is beyond what nine of ten inferences of the other run stayed below (its 90th percentile): the change is
  more than what one sees within a run; and
- the medians differ by more than LATENCY_CHANGE: it is more than what one sees between runs.

The rule is symmetric: what is slower from old to new is faster from new to old.
"""

from __future__ import annotations

from trtsmith.converter.batch.results.task_result import TimedRun

LATENCY_CHANGE = 0.03
"""Between two runs of kernels that nobody touched, on one H200 hours apart, 17 of 18 medians were beyond the other's 90th
percentile, and the farthest were 2.1 % apart (benchmarks/h200/bench.json and bench_earlier.json, their baselines)."""


def judged_latency(old: TimedRun, new: TimedRun) -> int:
    """1 for slower, -1 for faster, 0 for no change that is more than noise."""
    if _slower(old, new):
        return 1
    return -1 if _slower(new, old) else 0


def _slower(one: TimedRun, other: TimedRun) -> bool:
    return other.median > one.p90 and other.median > one.median * (1 + LATENCY_CHANGE)
