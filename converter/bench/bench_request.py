"""Describes to the process that times an engine what it has to do: plain data, to JSON and from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.model.option_values import check_values


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

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TimingOptions:
        """Reads what asdict gives, once it has been JSON."""
        return TimingOptions(**{**data, "graphs": tuple(data["graphs"])})


GRAPHS = {"both": (False, True), "off": (False,), "on": (True,)}
"""By what a user says of CUDA graphs, the runs to make: without, with."""


def graphs_of(said: str) -> tuple[bool, ...]:
    """UsageError for what is not in GRAPHS."""
    check_values(("--cuda-graph", said, tuple(GRAPHS)))
    return GRAPHS[said]


@dataclass(frozen=True)
class BenchRequest:
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

    def to_json(self) -> str:
        return json.dumps(
            {
                "run": self.run.to_json(),
                "timing": asdict(self.timing),
                "inputs": [str(path) for path in self.inputs],
                "batches": self.batches,
                "outputs": str(self.outputs),
                "layers": self.layers,
            }
        )

    @staticmethod
    def from_json(text: str) -> BenchRequest:
        data: Mapping[str, Any] = json.loads(text)
        return BenchRequest(
            RunRequest.from_json(data["run"]),
            TimingOptions.from_json(data["timing"]),
            tuple(map(Path, data["inputs"])),
            tuple(data["batches"]),
            Path(data["outputs"]),
            data["layers"],
        )
