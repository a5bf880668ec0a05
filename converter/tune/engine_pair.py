"""Describes engines that are timed in turn in one child process, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.tune.search import Ratio

ROUNDS = 9
"""Every engine runs in each of them, so that a change of clocks meets all."""

ROUND_S = 0.04
"""An engine's time in one round."""

LEAST = 6
"""Its inferences in one round, at the least."""


@dataclass(frozen=True)
class PairRequest(PlainData):
    """Engines to run and to time.

    inputs: a folder of arrays for each set; the first is timed. outputs: a folder for those of the first engine, each.
    rounds: of timing; 0: none.
    """

    runs: tuple[RunRequest, ...]
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...] = ()
    rounds: int = ROUNDS


@dataclass(frozen=True)
class PairTimes(PlainData):
    """ms: for each engine, the median latency of every round. memory: of its context, in bytes."""

    ms: tuple[tuple[float, ...], ...]
    memory: tuple[int, ...]

    def ratio(self) -> Ratio:
        """The first over the second. The two rounds that are furthest off count for nothing."""
        first, second = self.ms
        ratios = sorted(a / b for a, b in zip(first, second, strict=True))
        cut = 1 if len(ratios) > 4 else 0
        return Ratio(median(ratios), ratios[cut], ratios[-1 - cut])
