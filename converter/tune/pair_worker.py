"""Child side of `trtsmith tune`: opens engines, runs the first on every set of inputs, and times all in turn."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.process.folder_lock import folder_lock
from trtsmith.converter.bench.bench_worker import SessionLane
from trtsmith.converter.bench.timing import Clock, drive
from trtsmith.converter.engine.builder.flavour import load_flavour
from trtsmith.converter.engine.builder.messages import Messages, make_logger
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.runtime.device import Device, DeviceError
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.explain_failure import EngineIdentity, kernel_problem
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.runtime_log import TensorrtLog
from trtsmith.converter.rewrite.types import to_engine, to_model
from trtsmith.converter.tune.engine_pair import LEAST, ROUND_S, PairRequest

WARM_S = 0.1


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """The JSON of a PairTimes."""
    request = PairRequest.from_json(request_json)
    messages = Messages(log_path, request.runs[0].verbose, events)
    events.phase("opening the GPU")
    device = Device()
    flavour = load_flavour(request.runs[0].flavour)
    log = TensorrtLog(make_logger(flavour, messages), messages, events.phase)
    try:
        with ExitStack() as stack:
            runners = [
                stack.enter_context(Runner.of_request(run, device, flavour, log)) for run in request.runs
            ]
            return measure(request, device, runners, time.perf_counter, events.note)
    except DeviceError as error:  # of a kernel, seen where the events are waited for
        run = request.runs[0]
        origin = EngineIdentity(str(run.engine_path), run.plugin_libraries)
        raise UsageError(kernel_problem(error, origin)) from error
    finally:
        messages.flush()


def measure(
    request: PairRequest, device: Device, runners: list[Runner], clock: Clock, warn: Callable[[str], None]
) -> dict[str, Any]:
    """`main` on an existing device and runners. Searches on one machine time their engines one after another."""
    lanes, times = _opened(request, device, runners), list[list[float]]()
    if lanes:
        with folder_lock(Path(tempfile.gettempdir()), warn):
            times = _timed(lanes, request.rounds, clock)
    return {"ms": times, "memory": [runner.info.device_memory for runner in runners]}


def _opened(request: PairRequest, device: Device, runners: list[Runner]) -> list[SessionLane]:
    """Writes the outputs of the first engine. Returns a lane for each engine, if any are to be timed."""
    lanes = []
    for number, (run, runner) in enumerate(zip(request.runs, runners, strict=True)):
        on_host = frozenset(spec.name for spec in runner.info.inputs if spec.is_shape_tensor)
        names = [spec.name for spec in runner.info.inputs]
        for place, folder in zip(request.outputs, request.inputs, strict=False) if number == 0 else ():
            feeds = to_engine(_of(read_arrays(folder), names), run.io_types)
            lane = SessionLane(
                device, runner.session(profile=run.profile, cuda_graph=False), feeds, on_host, transfers=False
            )
            write_arrays(place, to_model(lane.outputs(), run.io_types))
        if request.rounds:
            feeds = to_engine(_of(read_arrays(request.inputs[0]), names), run.io_types)
            session = runner.session(profile=run.profile, cuda_graph=True)
            lanes.append(SessionLane(device, session, feeds, on_host, transfers=False))
    return lanes


def _timed(lanes: list[SessionLane], rounds: int, clock: Clock) -> list[list[float]]:
    """The median latency of every lane in every round, in ms."""
    for lane in lanes:
        drive([lane], clock, WARM_S, LEAST)
    times: list[list[float]] = [[] for _ in lanes]
    for _ in range(rounds):
        for mine, lane in zip(times, lanes, strict=True):
            done = drive([lane], clock, ROUND_S, LEAST)
            mine.append(median(query.stages.compute for query in done.queries))
    return times


def _of(arrays: Any, names: list[str]) -> dict[str, Any]:
    return {name: arrays[name] for name in names}


if __name__ == "__main__":
    serve(sys.argv[1:], main)
