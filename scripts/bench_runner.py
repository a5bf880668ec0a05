"""Measures what the runner adds to an inference on the GPU: Session.infer against a bare loop of execute_async_v3.

    python scripts/bench_runner.py                     # prints JSON
    python scripts/bench_runner.py -o runner.json

The engines do next to nothing, so that the time is the host's. Arrays are on the device already: tensors of the runner's,
PyTorch's on the session's stream, PyTorch's on another stream (one wait more for each inference), CuPy's. Each figure is the
median over repetitions of the mean over a loop, in microseconds; `bare` and `infer` take turns, and so do the cases, so that
what disturbs the machine for a while disturbs some repetitions of all cases, and not one case. The exit code is 1 if a
median overhead is above the limit. Needs TensorRT or TensorRT-RTX and cuda-core; PyTorch and CuPy are left out where they
are missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from trtsmith.converter.engine.build.flavour import load_flavour, network_flags  # noqa: E402
from trtsmith.converter.engine.runtime.logged import process_log  # noqa: E402
from trtsmith.converter.engine.runtime.runner import Runner, Session  # noqa: E402

LIMIT_US = 5.0
INPUTS = (1, 2, 4)
PACKAGES = ("cuda-core", "cuda-bindings", "torch", "cupy-cuda13x", "cupy-cuda12x", "numpy")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loop", type=int, default=500, help="inferences in a loop (default %(default)s)")
    parser.add_argument("--repetitions", type=int, default=31, help="of each loop (default %(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="write the record there; default: print it")
    options = parser.parse_args(argv)
    record = measure_all(options.loop, options.repetitions)
    text = json.dumps(record, indent=1) + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        options.output.write_text(text)
    slow = [row for row in record["cases"] if row["overhead_us"] > LIMIT_US]
    for row in slow:
        print(f"above {LIMIT_US} us: {row}", file=sys.stderr)
    return 1 if slow else 0


def measure_all(loop: int, repetitions: int) -> dict[str, Any]:
    """The record: what was measured with, and a row for each number of inputs and kind of array."""
    cases: list[SessionCase] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for count in INPUTS:
            engine = Path(folder) / f"sum{count}.plan"
            engine.write_bytes(build_sum(count))
            runner = stack.enter_context(Runner.open(engine))
            cases += arrays_of(runner, count)
        head = {"gpu": runner.info.gpu, "tensorrt": f"{runner.info.flavour} {runner.info.version}"}
        for _ in range(repetitions):
            for case in cases:
                case.measure(loop)
    versions = {name: metadata.version(name) for name in PACKAGES if _installed(name)}
    return head | {
        "python": sys.version.split()[0],
        "packages": versions,
        "loop": loop,
        "repetitions": repetitions,
        "cases": [case.row() for case in cases],
    }


def build_sum(count: int) -> bytes:
    """An engine of `count` inputs of 8 floats, and their sum."""
    names = [f"x{number}" for number in range(count)]
    nodes = [helper.make_node("Sum" if count > 1 else "Relu", names, ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in (*names, "y")]
    graph = helper.make_graph(nodes, "sum", values[:-1], values[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return build_plan(model)


def build_plan(model: onnx.ModelProto) -> bytes:
    """An engine for the GPU that is there, in this process."""
    flavour = load_flavour()
    trt: Any = flavour.module
    logger = process_log(flavour).logger
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(flavour))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model.SerializeToString()):
        raise RuntimeError("; ".join(parser.get_error(i).desc() for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    if flavour.is_rtx:
        config.num_compute_capabilities = 1
        config.set_compute_capability(trt.ComputeCapability.CURRENT, 0)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("TensorRT built no engine")
    return bytes(plan)


@dataclass
class SessionCase:
    """Inputs of one kind for a session, and what was measured with them, in microseconds.

    current: the stream that is current while it runs.
    """

    inputs: int
    arrays: str
    session: Session
    feeds: Mapping[str, Any]
    current: AbstractContextManager[Any] = field(default_factory=nullcontext)
    bare_us: list[float] = field(default_factory=list)
    infer_us: list[float] = field(default_factory=list)

    def measure(self, loop: int) -> None:
        """One repetition: a loop of bare calls and one of inferences."""
        session, feeds = self.session, self.feeds
        execute, handle = session._context.execute_async_v3, session.stream
        with self.current:
            session.infer(feeds)
            self.bare_us.append(_time(session, lambda: execute(handle), loop))
            self.infer_us.append(_time(session, lambda: session.infer(feeds, synchronise=False), loop))

    def row(self) -> dict[str, Any]:
        """Medians: a bare call, an inference, and the difference of each pair of loops."""
        pairs = zip(self.bare_us, self.infer_us, strict=True)
        figures = {
            "bare_us": statistics.median(self.bare_us),
            "infer_us": statistics.median(self.infer_us),
            "overhead_us": statistics.median(infer - bare for bare, infer in pairs),
        }
        return {"inputs": self.inputs, "arrays": self.arrays, **{k: round(v, 3) for k, v in figures.items()}}


def arrays_of(runner: Runner, count: int) -> list[SessionCase]:
    """A case for each library that is there."""
    hosts = {f"x{number}": np.arange(8, dtype=np.float32) + number for number in range(count)}
    session = runner.session()
    found = [SessionCase(count, "trtsmith", session, session.upload(hosts))]
    if importlib.util.find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            tensors = {name: torch.from_numpy(array).cuda() for name, array in hosts.items()}
            stream = torch.cuda.Stream()
            own, current = runner.session(stream=stream), torch.cuda.stream(stream)
            found.append(SessionCase(count, "torch, the session's stream", own, tensors, current))
            found.append(SessionCase(count, "torch, another stream", runner.session(), tensors))
    if importlib.util.find_spec("cupy"):
        import cupy

        arrays = {name: cupy.asarray(array) for name, array in hosts.items()}
        found.append(SessionCase(count, "cupy, another stream", runner.session(), arrays))
    return found


def _time(session: Session, call: Callable[[], Any], loop: int) -> float:
    session.synchronise()
    started = time.perf_counter()
    for _ in range(loop):
        call()
    took = time.perf_counter() - started
    session.synchronise()
    return took / loop * 1e6


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
