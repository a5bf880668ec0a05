"""Child side of --against: times one baseline of the engine on one set of inputs.

The baselines are the same model in onnxruntime, and the user's own PyTorch code. Each is a call from inputs to outputs,
timed by the host's clock one inference at a time, as the engine's `response` is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trtsmith.converter.base.process.plain_data import PlainData
from trtsmith.converter.base.torch_arrays import from_torch, to_torch
from trtsmith.converter.base.user_function import load_user_function
from trtsmith.converter.bench.timed_engine import TimingOptions
from trtsmith.converter.bench.timing import Clock, Summary, digits6
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.serve import serve
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.operators.loading import with_operators_of_parent
from trtsmith.importers.opdef import Arrays

BASELINES: Mapping[str, str] = {
    "onnxruntime": "the model in onnxruntime, on its CUDA provider if it has one, else on the CPU",
    "torch": "the PyTorch model of --torch MODULE:FUNCTION",
}


@dataclass(frozen=True)
class TimedBaseline:
    """A runtime with the model, ready to be timed.

    what:  version and device, for people.
    call:  one inference, from beginning to end; returns nothing that waits.
    fetch: the outputs of the last call by name, on the host.
    """

    name: str
    what: str
    call: Callable[[], object]
    fetch: Callable[[], dict[str, np.ndarray]]


def repeat(call: Callable[[], object], clock: Clock, seconds: float, least: int) -> list[float]:
    """Returns milliseconds of single calls, for at least the given seconds and number."""
    began, taken = clock(), list[float]()
    while len(taken) < least or clock() - began < seconds:
        since = clock()
        call()
        taken.append((clock() - since) * 1e3)
    return taken


def onnxruntime_baseline(model_path: Path, feeds: Arrays, *, transfers: bool) -> TimedBaseline:
    """Opens the model in onnxruntime; custom operators that it lacks are expanded into standard ones.

    transfers: False keeps inputs and outputs on the GPU, where there is a CUDA provider. Raises ConversionError.
    """
    import onnxruntime

    from trtsmith.converter.model.load import load_model
    from trtsmith.converter.model.ort import open_session, run_session
    from trtsmith.converter.rewrite.rewrite import reference

    model = reference(load_model(model_path))
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
    providers = [name for name in wanted if name in onnxruntime.get_available_providers()]
    session = open_session(model, providers=providers, optimise=True)
    provider = session.get_providers()[0]
    known = {value.name for value in session.get_inputs()}
    given = {name: array for name, array in feeds.items() if name in known}
    on_gpu = provider == wanted[0]
    what = f"onnxruntime {onnxruntime.__version__}, {provider}" + (
        "" if on_gpu else ": on the CPU, no GPU used"
    )
    names = [value.name for value in session.get_outputs()]
    run_session(session, model, given)  # a model that it does not run fails here, in its own words
    if transfers or not on_gpu:
        last: list[dict[str, np.ndarray]] = [{}]

        def call() -> None:
            last[0] = dict(zip(names, session.run(names, given), strict=True))

        return TimedBaseline(
            "onnxruntime", what, call, lambda: {n: np.asarray(v) for n, v in last[0].items()}
        )
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0))
    for name in names:
        binding.bind_output(name, "cuda")

    def bound() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return TimedBaseline(
        "onnxruntime", what, bound, lambda: dict(zip(names, binding.copy_outputs_to_cpu(), strict=True))
    )


def torch_baseline(spec: str, feeds: Arrays, outputs: Sequence[str], *, transfers: bool) -> TimedBaseline:
    """Makes a baseline that calls FUNCTION of MODULE on the inputs.

    FUNCTION gets the inputs by name as tensors, on the GPU where PyTorch has one, and returns a callable without
    arguments that computes the model from them and returns its outputs, one tensor or several in the model's order. It
    runs without gradients. transfers: inputs are copied into those tensors before each call, and outputs back after it.
    Raises UsageError where there is no such function.
    """
    function = load_user_function(spec, "--torch").function
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    host = {name: to_torch(array) for name, array in feeds.items()}
    if device == "cuda":
        host = {name: tensor.pin_memory() for name, tensor in host.items()}
    given = {name: tensor.to(device) for name, tensor in host.items()}
    last: list[tuple[Any, ...]] = [()]
    with torch.inference_mode():
        compute = function(given)

    def call() -> None:
        with torch.inference_mode():
            if transfers and device == "cuda":
                for name, tensor in given.items():
                    tensor.copy_(host[name], non_blocking=True)
            result = compute()
            found = (result,) if isinstance(result, torch.Tensor) else tuple(result)
            last[0] = tuple(tensor.cpu() for tensor in found) if transfers else found
            if device == "cuda":
                torch.cuda.synchronize()

    def fetch() -> dict[str, np.ndarray]:
        return dict(zip(outputs, map(from_torch, last[0]), strict=True))

    return TimedBaseline("torch", f"PyTorch {torch.__version__}, {device}, {spec}", call, fetch)


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
    """Returns the baseline's description, response times and throughput."""
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


def _open(request: BaselineRequest) -> TimedBaseline:
    feeds, transfers = read_arrays(request.inputs), request.timing.transfers
    if request.name == "torch":
        return torch_baseline(request.torch, feeds, request.outputs_are, transfers=transfers)
    return onnxruntime_baseline(request.model, feeds, transfers=transfers)


if __name__ == "__main__":
    serve(sys.argv[1:], with_operators_of_parent(work))
