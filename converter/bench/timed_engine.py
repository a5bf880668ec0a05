"""Times one engine in a child process, and turns crashes there into error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from trtsmith.converter.base.option_values import check_values
from trtsmith.converter.base.options.kinds import DURATION, KINDS, Flag
from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.base.process.scratch_folder import ScratchFolder
from trtsmith.converter.base.progress import Progress
from trtsmith.converter.bench.points import Point
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_in_child import answer_of, checked
from trtsmith.converter.engine.runtime.run_request import RunRequest

GRAPHS = {"both": (False, True), "off": (False,), "on": (True,)}
"""By what a user says of CUDA graphs, the runs to make: without, with."""


def graphs_of(said: str, name: str = "cuda_graph") -> tuple[bool, ...]:
    """Returns the runs, with or without CUDA graph, that the option names. Raises UsageError for others than GRAPHS."""
    check_values((f"--{name.replace('_', '-')}", said, tuple(GRAPHS)))
    return GRAPHS[said]


@dataclass(frozen=True)
class TimingOptions:
    """The timing settings. iterations: warm-up left out. graphs: whether to capture a CUDA graph, one run for each
    answer.
    """

    TITLE: ClassVar[str] = "timing"

    warmup_s: Annotated[
        float,
        Flag(
            "time before the measurement (200)",
            "MS",
            default=200.0,
            kind=replace(DURATION, read=lambda given, name: given / 1e3),
            keyword="warmup_ms",
        ),
    ] = 0.2
    duration_s: Annotated[float, Flag("length of each run (3)", "S", kind=DURATION)] = 3.0
    iterations: Annotated[int, Flag("minimum number of inferences (10)", "N")] = 10
    streams: Annotated[int, Flag("number of parallel contexts (1)", "N", common=True)] = 1
    transfers: Annotated[
        bool,
        Flag(
            "keep inputs and outputs on the GPU, without copies",
            "",
            "--no-transfers",
            action="store_false",
        ),
    ] = True
    graphs: Annotated[
        tuple[bool, ...],
        Flag(
            "time with a CUDA graph, without one, or both (both)",
            default="both",
            kind=replace(KINDS["CudaGraphMode"], read=graphs_of),
            keyword="cuda_graph",
        ),
    ] = GRAPHS["both"]


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


@dataclass(frozen=True)
class Timed:
    """Times of one engine.

    runs:        as converter/bench/bench_record.py describes them.
    outputs:     for the first point, in the model's types.
    layer_runs:  milliseconds by layer name for each profiled inference; inspector: what the engine inspector said.
    clocks:      of trtsmith.converter.plugin.machine.clocks, at the end of the last run.
    """

    runs: tuple[dict[str, Any], ...]
    outputs: Mapping[str, np.ndarray]
    layer_runs: tuple[Mapping[str, float], ...]
    inspector: str
    clocks: Mapping[str, float] | None
    warnings: tuple[str, ...]

    def plain_run(self) -> dict[str, Any] | None:
        """Returns the first run without CUDA graph, else the first; None where nothing was measured."""
        done = (run for run in self.runs if "unavailable" not in run)
        return min(done, key=lambda run: bool(run["cuda_graph"]), default=None)


def time_engine(
    run: RunRequest, points: Sequence[Point], timing: TimingOptions, layers: int, progress: Progress
) -> Timed:
    """Times the engine at each point. layers: how many inferences are profiled by layer; 0: none.

    Raises UsageError for all that can be wrong with engine, GPU, plugin libraries and inputs, and where
    the process dies.
    """
    run = checked(run)
    with ScratchFolder("bench") as name:
        folder = Path(name)
        inputs = tuple(folder / f"inputs-{number}" for number in range(len(points)))
        for place, point in zip(inputs, points, strict=True):
            write_arrays(place, point.feeds)
        batches = tuple(point.batch() for point in points)
        request = BenchRequest(run, timing, inputs, batches, folder / "outputs", layers)
        found = answer_of("trtsmith.converter.bench.bench_worker", request, run, progress)
        outputs = read_arrays(request.outputs)
    runs = []
    for done in found["runs"]:
        point = points[done.pop("number")]
        runs.append({"point": point.label, "shapes": point.sizes(), **done})
    return Timed(
        runs=tuple(runs),
        outputs=outputs,
        layer_runs=tuple(found["layer_runs"]),
        inspector=found["inspector"],
        clocks=found["clocks"],
        warnings=tuple(found["warnings"]),
    )
