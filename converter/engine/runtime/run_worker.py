"""Child side of a run: loads the engine, runs it on each set of inputs, and writes the outputs.

converter/engine/child says how it talks to its parent.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.builder.flavour import Flavour, load_flavour
from trtsmith.converter.engine.builder.messages import Messages, make_logger
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.runtime.device import Device
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.feeds import check_profile
from trtsmith.converter.engine.runtime.run_request import ChildRequest
from trtsmith.converter.engine.runtime.runner import Runner
from trtsmith.converter.engine.runtime.runtime_log import TensorrtLog

REPEATS_S = 1.0
"""How long runs on the same inputs may take together."""


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Carries out a ChildRequest. Returns {"info": the EngineInfo, "warnings": [...], "unsteady": {output: ...}}."""
    request = ChildRequest.from_json(request_json)
    messages = Messages(log_path, request.run.verbose, events)
    events.phase("opening the GPU")
    device = Device()
    events.phase("loading TensorRT")
    flavour = load_flavour(request.run.flavour)
    log = TensorrtLog(make_logger(flavour, messages), messages, events.phase)
    try:
        return run(request, device, flavour, log, events)
    finally:
        messages.flush()


def run(
    request: ChildRequest, device: Device, flavour: Flavour, log: TensorrtLog, events: Events
) -> dict[str, Any]:
    """Does the work of `main` with a device and a TensorRT that are there already."""
    with Runner.of_request(request.run, device, flavour, log) as runner:
        check_profile(max(runner.info.profiles, 1), request.run.profile, str(request.run.engine_path))
        count, unsteady = len(request.inputs), dict[str, float]()
        for number, (source, target) in enumerate(zip(request.inputs, request.outputs, strict=True), 1):
            events.phase("running the engine" + (f" on inputs {number} of {count}" if count > 1 else ""))
            feeds = read_arrays(source)
            outputs = runner(feeds)
            if number == 1 and request.repeats:
                outputs, unsteady = furthest(partial(runner, feeds), outputs, request.repeats)
            try:
                write_arrays(target, outputs)
            except OSError as error:
                raise UsageError(
                    f"The outputs cannot be written: {error.strerror or error}.",
                    str(target.parent),
                    "room for the outputs in the folder for temporary files",
                    "free some space, or set TMPDIR to another folder",
                ) from error
        events.phase("closing the engine")
    return {
        "info": runner.info.to_json(),
        "warnings": list(dict.fromkeys(runner.warnings)),
        "unsteady": unsteady,
    }


def furthest(
    run: Callable[[], dict[str, np.ndarray]], first: dict[str, np.ndarray], repeats: int
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Runs the engine again, so often or for REPEATS_S. Returns the outputs of the run that is furthest from the first.

    And by name how far apart outputs are at most, ||y - x|| / ||x||, of those that are not the same bit by bit.
    """
    found, largest, apart = first, 0.0, dict[str, float]()
    until = time.monotonic() + REPEATS_S
    for _ in range(repeats):
        outputs = run()
        off = {name: _distance(array, first[name]) for name, array in outputs.items()}
        for name, distance in off.items():
            if distance:
                apart[name] = max(distance, apart.get(name, 0.0))
        if max(off.values(), default=0.0) > largest:
            found, largest = outputs, max(off.values())
        if time.monotonic() > until:
            break
    return found, apart


def _distance(array: np.ndarray, first: np.ndarray) -> float:
    """||y - x|| / ||x||; infinite where it is no number, 0 for the same bits."""
    if array.shape != first.shape:
        return math.inf
    if array.tobytes() == first.tobytes():
        return 0.0
    with np.errstate(all="ignore"):
        x = first.astype(np.float64)
        distance = float(np.linalg.norm(array.astype(np.float64) - x) / np.linalg.norm(x))
    return distance if math.isfinite(distance) else math.inf


if __name__ == "__main__":
    serve(sys.argv[1:], main)
