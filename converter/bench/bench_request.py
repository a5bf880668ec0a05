"""Describes a timing run to the process that makes it, as plain data to and from JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.option_values import check_values
from trtsmith.converter.model.process.plain_data import PlainData


@dataclass(frozen=True)
class TimingOptions:
    """How to time. iterations: the least number of inferences of a run, warm-up left out.

    graphs:    whether to capture a CUDA graph, one run for each answer.
    transfers: whether inputs and outputs are copied from and to the host.
    """

    warmup_s: float = 0.2
    duration_s: float = 3.0
    iterations: int = 10
    streams: int = 1
    transfers: bool = True
    graphs: tuple[bool, ...] = (False, True)


GRAPHS = {"both": (False, True), "off": (False,), "on": (True,)}
"""By what a user says of CUDA graphs, the runs to make: without, with."""


def graphs_of(said: str) -> tuple[bool, ...]:
    """UsageError for what is not in GRAPHS."""
    check_values(("--cuda-graph", said, tuple(GRAPHS)))
    return GRAPHS[said]


@dataclass(frozen=True)
class BenchRequest(PlainData):
    """One engine to time at several sets of inputs.

    inputs:  a folder of arrays for each (converter/engine/runtime/exchange.py), in the model's types.
    batches: the batch of each.
    outputs: the folder into which the outputs for the first set of inputs go, in the model's types.
    layers:  how many inferences are profiled by layer; 0: none.
    """

    run: RunRequest
    timing: TimingOptions
    inputs: tuple[Path, ...]
    batches: tuple[int, ...]
    outputs: Path
    layers: int = 0
