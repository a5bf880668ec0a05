"""Child side of --against: times one baseline of the engine on one set of inputs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtsmith.converter.bench.baselines import Baseline, onnxruntime_baseline, repeat, torch_baseline
from trtsmith.converter.bench.bench_request import TimingOptions
from trtsmith.converter.bench.figures import Summary, digits6
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.model.process.plain_data import PlainData
from trtsmith.converter.operators.loading import with_operators_of_parent


@dataclass(frozen=True)
class BaselineRequest(PlainData):
    """A baseline to time.

    name:        of baselines.BASELINES.
    model:       the .onnx file.
    inputs:      a folder of arrays (converter/engine/runtime/exchange.py). outputs: the folder that gets the baseline's.
    outputs_are: the names of the model's outputs, in its order.
    torch:       MODULE:FUNCTION, or "". path: folders in which to look for the module.
    """

    name: str
    model: Path
    inputs: Path
    outputs: Path
    outputs_are: tuple[str, ...]
    timing: TimingOptions
    torch: str = ""
    path: tuple[str, ...] = ()


def work(request_json: str, events: Events, log_path: Path) -> Mapping[str, Any]:
    """The baseline's description, response times and throughput."""
    del log_path
    request = BaselineRequest.from_json(request_json)
    sys.path[:0] = request.path
    events.phase(f"starting {request.name}")
    baseline = _open(request)
    events.phase(f"timing {request.name}")
    timing = request.timing
    repeat(baseline.call, time.perf_counter, timing.warmup_s, 2)
    taken = repeat(baseline.call, time.perf_counter, timing.duration_s, timing.iterations)
    write_arrays(request.outputs, baseline.fetch())
    return {
        "what": baseline.what,
        "transfers": timing.transfers,
        "response_ms": Summary.of(taken).to_json(),
        "throughput": digits6(1e3 * len(taken) / sum(taken)),
    }


def _open(request: BaselineRequest) -> Baseline:
    feeds, transfers = read_arrays(request.inputs), request.timing.transfers
    if request.name == "torch":
        return torch_baseline(request.torch, feeds, request.outputs_are, transfers=transfers)
    return onnxruntime_baseline(request.model, feeds, transfers=transfers)


if __name__ == "__main__":
    serve(sys.argv[1:], with_operators_of_parent(work))
