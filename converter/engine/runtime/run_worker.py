"""Child side of a run: loads the engine, runs it on each set of inputs, and writes the outputs.

converter/engine/child says how it talks to its parent.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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


def main(request_json: str, events: Events, log_path: Path) -> dict[str, Any]:
    """Carries out a ChildRequest. Returns {"info": the EngineInfo, "warnings": [...]}."""
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
        check_profile(max(runner.info.profiles, 1), request.run.profile)
        count = len(request.inputs)
        for number, (source, target) in enumerate(zip(request.inputs, request.outputs, strict=True), 1):
            events.phase("running the engine" + (f" on inputs {number} of {count}" if count > 1 else ""))
            outputs = runner(read_arrays(source))
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
    return {"info": runner.info.to_json(), "warnings": list(dict.fromkeys(runner.warnings))}


if __name__ == "__main__":
    serve(sys.argv[1:], main)
