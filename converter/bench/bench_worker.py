"""Child side of `trtsmith bench`: loads the engine once and times it at each set of inputs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.bench.timed_engine import BenchRequest, TimingOptions
from trtsmith.converter.bench.timing import DEPTH, Clock, Stages, drive, respond, summarise
from trtsmith.converter.engine.builder.flavour import load_flavour
from trtsmith.converter.engine.builder.messages import Messages, make_logger
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.runtime.device import Device, DeviceError, pinned_array
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.explain_failure import EngineIdentity, kernel_problem
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.runtime_log import TensorrtLog
from trtsmith.converter.plugin.machine import clocks
from trtsmith.converter.rewrite.types import to_engine, to_model

if TYPE_CHECKING:
    from trtsmith.converter.engine.runtime.device import Device
    from trtsmith.converter.engine.runtime.session import Session


_EVENTS = 4  # before the inputs are copied, before the engine, after it, after the outputs are copied


class SessionLane:
    """A Session that runs the same inputs again and again (trtsmith.converter.bench.timing.Lane).

    Inputs and outputs have pinned host memory, without which copies would not overlap with anything. The first inference
    is made here: it tells TensorRT shapes and addresses, and finds the sizes of the outputs.
    """

    def __init__(
        self,
        device: Device,
        session: Session,
        feeds: Mapping[str, np.ndarray],
        on_host: frozenset[str],
        *,
        transfers: bool,
    ) -> None:
        """feeds: arrays in the engine's types. on_host: inputs whose values decide shapes: never on the GPU.

        Raises UsageError as Session.infer does.
        """
        self._device = device
        self._session = session
        self._transfers = transfers
        copied = session.upload({name: array for name, array in feeds.items() if name not in on_host})
        self._outputs = session.infer({name: copied.get(name, array) for name, array in feeds.items()})
        self._sources = [
            (tensor, pinned(device, feeds[name])) for name, tensor in copied.items() if tensor.nbytes
        ]
        self._targets = [
            (tensor, device.allocate_host(tensor.nbytes))
            for tensor in self._outputs.values()
            if tensor.nbytes
        ]
        self._events = [[device.create_event() for _ in range(_EVENTS)] for _ in range(DEPTH)]

    def submit(self, slot: int) -> None:
        device, stream = self._device, self._session.stream
        start, copied_in, computed, end = self._events[slot]
        device.record(start, stream)
        if self._transfers:
            for tensor, array in self._sources:
                device.copy_in(tensor.pointer, array.ctypes.data, tensor.nbytes, stream)
        device.record(copied_in, stream)
        self._session.enqueue()
        device.record(computed, stream)
        if self._transfers:
            for tensor, memory in self._targets:
                device.copy_out(memory.pointer, tensor.pointer, tensor.nbytes, stream)
        device.record(end, stream)

    def wait(self, slot: int) -> Stages:
        events = self._events[slot]
        self._device.wait_for(events[-1])
        h2d, compute, d2h = (self._device.elapsed_ms(before, after) for before, after in pairwise(events))
        return Stages(h2d, compute, d2h) if self._transfers else Stages(0.0, compute, 0.0)

    def outputs(self) -> dict[str, np.ndarray]:
        """Copies the outputs of the last inference, in host memory and in the engine's types."""
        return {name: tensor.numpy() for name, tensor in self._outputs.items()}


def pinned(device: Device, array: np.ndarray) -> np.ndarray:
    """Copies an array to page-locked memory."""
    copy = pinned_array(device, array.shape, array.dtype)
    copy[...] = array
    return copy


RESPONSES = (5, 100)
"""Fewest and most inferences of the response time; between them a quarter of those of the run."""

_WARM_LAYERS = 3
_NO_GRAPH = "no CUDA graph"  # of the warnings of trtsmith.converter.engine.runtime.session and graph


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Returns {"runs", "layer_runs", "inspector", "clocks", "warnings"}; a run's `number` says which inputs it is of."""
    request = BenchRequest.from_json(request_json)
    messages = Messages(log_path, request.run.verbose, events)
    events.phase("opening the GPU")
    device = Device()
    events.phase("loading TensorRT")
    flavour = load_flavour(request.run.flavour)
    log = TensorrtLog(make_logger(flavour, messages), messages, events.phase)
    try:
        with Runner.of_request(request.run, device, flavour, log) as runner:
            return measure(request, device, runner, events.phase, time.perf_counter, clocks)
    except DeviceError as error:  # of a kernel, seen where the events are waited for
        origin = EngineIdentity(str(request.run.engine_path), request.run.plugin_libraries)
        raise UsageError(kernel_problem(error, origin)) from error
    finally:
        messages.flush()


def measure(
    request: BenchRequest,
    device: Device,
    runner: Runner,
    announce: Callable[[str], None],
    clock: Clock,
    look: Callable[[], Mapping[str, float] | None],
) -> dict[str, Any]:
    """Does the work of `main` on an existing device, runner and clocks. look: reads the GPU's clocks."""
    runs, layer_runs, inspector, seen = [], [], "", None
    for number, (folder, batch) in enumerate(zip(request.inputs, request.batches, strict=True)):
        feeds = to_engine(read_arrays(folder), request.run.io_types)
        for graph in request.timing.graphs:
            told = len(runner.warnings)
            announce(f"timing inputs {number + 1} of {len(request.inputs)}{', CUDA graph' if graph else ''}")
            lanes = _lanes(device, runner, feeds, request.timing, graph=graph, profile=request.run.profile)
            timing = request.timing
            head = {
                "number": number,
                "batch": batch,
                "cuda_graph": graph,
                "streams": timing.streams,
                "transfers": timing.transfers,
            }
            drive(lanes, clock, timing.warmup_s, DEPTH * len(lanes))
            refused = [text for text in runner.warnings[told:] if _NO_GRAPH in text]
            if graph and refused:
                runs.append({**head, "unavailable": refused[0]})
                continue
            run = drive(lanes, clock, timing.duration_s, timing.iterations)
            seen = look()
            least, most = RESPONSES
            response = respond(lanes[0], clock, min(max(len(run.queries) // 4, least), most))
            runs.append({**head, **summarise(run, response, batch)})
            if not request.outputs.exists():
                write_arrays(request.outputs, to_model(lanes[0].outputs(), request.run.io_types))
        if request.layers and number == 0:
            announce("profiling layers")
            layer_runs = _profile(runner, feeds, request.layers, request.run.profile)
            inspector = runner.inspect()
    if not request.outputs.exists():
        write_arrays(request.outputs, {})
    return {
        "runs": runs,
        "layer_runs": layer_runs,
        "inspector": inspector,
        "clocks": seen,
        "warnings": [text for text in dict.fromkeys(runner.warnings) if _NO_GRAPH not in text],
    }


def _lanes(
    device: Device,
    runner: Runner,
    feeds: Mapping[str, np.ndarray],
    timing: TimingOptions,
    *,
    graph: bool,
    profile: int,
) -> list[SessionLane]:
    on_host = frozenset(spec.name for spec in runner.info.inputs if spec.is_shape_tensor)
    return [
        SessionLane(
            device,
            runner.session(profile=profile, cuda_graph=graph),
            feeds,
            on_host,
            transfers=timing.transfers,
        )
        for _ in range(timing.streams)
    ]


def _profile(
    runner: Runner, feeds: Mapping[str, np.ndarray], count: int, profile: int
) -> list[dict[str, float]]:
    """Milliseconds by layer name, for each of `count` inferences. A layer in a loop is reported often: its sum."""
    session = runner.session(profile=profile, cuda_graph=False)
    session.infer(feeds)
    found: list[dict[str, float]] = []

    def report(layer: str, milliseconds: float) -> None:
        found[-1][layer] = found[-1].get(layer, 0.0) + milliseconds

    with session.profiling(report):
        for _ in range(_WARM_LAYERS + count):
            found.append({})
            session.enqueue()
            session.synchronise()
    return found[_WARM_LAYERS:]


if __name__ == "__main__":
    serve(sys.argv[1:], main)
