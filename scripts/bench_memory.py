"""Measure the memory of rewrite, convert and verify on a model of 2 GB with external data, beside the model's size.

    python scripts/bench_memory.py          # writes benchmarks/memory.json; needs 10 GB of disk and some 12 GB of memory

The model is a chain of matrix products with random float32 weights, and a custom operator at its end. Every command is a
process of its own; it and its children are sampled every 10 ms. Resident memory is told apart as the kernel does: anonymous
memory, which nothing but swap gives back, and pages of mapped files, which the system drops when it needs room. The
builder's own use is that of a process that does nothing but hand the rewritten graph to TensorRT-RTX and write the engine.
The limit holds for anonymous and mapped memory together, of all processes at once, less the builder's own. The exit code is
1 if one is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from bench_rewrite import machine  # noqa: E402
from converter.child.environment import child_environment  # noqa: E402
from converter.libraries import plugin_library  # noqa: E402

OUTPUT = ROOT / "benchmarks" / "memory.json"
LIMIT = 1.3
"""Peak memory over the builder's own use, as a multiple of the model's size."""

WIDTH, LAYERS = 4096, 32
"""Of the chain: 32 weights of 64 MiB."""

_INTERVAL_S = 0.01
_FIELDS = ("RssAnon", "RssFile", "RssShmem")


@dataclass
class Peak:
    """Bytes resident at once in a process and its children: the largest sum, and the largest of each kind."""

    total: int = 0
    anonymous: int = 0
    mapped: int = 0

    def add(self, anonymous: int, mapped: int) -> None:
        self.total = max(self.total, anonymous + mapped)
        self.anonymous, self.mapped = max(self.anonymous, anonymous), max(self.mapped, mapped)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=LAYERS, help="weights of 64 MiB (default %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the record")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.step:
        step, *arguments = options.step
        _STEPS[step](*map(Path, arguments))
        return 0
    with tempfile.TemporaryDirectory(prefix="trtsmith-memory-") as folder:
        record = measured(Path(folder), options.layers)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    return 0 if record["within_limits"] else 1


def measured(folder: Path, layers: int) -> dict[str, Any]:
    """The record, from processes that run one after the other."""
    model, rewritten = folder / "model.onnx", folder / "rewritten.onnx"
    write_model(model, layers)
    size = sum(path.stat().st_size for path in folder.iterdir())
    cli = [sys.executable, "-m", "converter.cli"]
    step = [sys.executable, str(Path(__file__).resolve()), "--step"]
    idle = peak_of([*step, "import"], folder)
    rewrite = peak_of([*cli, "rewrite", str(model), "-o", str(rewritten), "-q"], folder)
    work = folder / "work"
    work.mkdir()
    bare = [sys.executable, "-c", _BARE, str(rewritten), str(folder / "bare.plan"), str(plugin_library())]
    builder = peak_of(bare, folder, child_environment("tensorrt_rtx", work))
    (folder / "bare.plan").unlink()
    convert = [*cli, "convert", str(model), "-o", str(folder / "model.plan"), "-q", "--target", "sm86"]
    runs = {
        "rewrite": (rewrite, 0),
        "convert --no-verify": (peak_of([*convert, "--no-verify"], folder), builder.total),
        "convert --verify graph": (peak_of([*convert, "--verify", "graph"], folder), builder.total),
        "verify, all but the engine": (peak_of([*step, "verify", str(model)], folder), 0),
    }
    commands = {name: _entry(peak, own, size) for name, (peak, own) in runs.items()}
    return {
        "machine": machine(),
        "limits": {"over_builder_over_model": LIMIT},
        "model": {"mib": _mib(size), "layers": layers, "width": WIDTH},
        "imports_mib": _mib(idle.total),
        "builder": _entry(builder, 0, size),
        "commands": commands,
        "within_limits": all(c["over_builder_over_model"] <= LIMIT for c in commands.values()),
    }


def _entry(peak: Peak, own: int, size: int) -> dict[str, float]:
    return {
        "peak_mib": _mib(peak.total),
        "anonymous_mib": _mib(peak.anonymous),
        "mapped_mib": _mib(peak.mapped),
        "over_builder_over_model": round((peak.total - own) / size, 3),
    }


def _mib(size: int) -> float:
    return round(size / 2**20, 1)


def peak_of(command: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ) -> Peak:
    """Run the command to its end, and watch it and its children. CalledProcessError if it fails."""
    path = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    environment = {**environment, "PYTHONPATH": path, "TMPDIR": str(folder)}
    process = subprocess.Popen(command, stdout=sys.stderr, cwd=folder, env=environment)
    peak = Peak()
    while process.poll() is None:
        sampled = [_resident(pid) for pid in _tree(process.pid)]
        peak.add(sum(s[0] for s in sampled), sum(s[1] for s in sampled))
        time.sleep(_INTERVAL_S)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peak


def _tree(pid: int) -> Iterator[int]:
    """The process and its descendants; those that end meanwhile are left out."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _resident(pid: int) -> tuple[int, int]:
    """Bytes of anonymous and of shared or mapped memory; zeros for a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0
    found = {name: int(size) * 1024 for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    anonymous, mapped, shared = (found.get(name, 0) for name in _FIELDS)
    return anonymous, mapped + shared


def write_model(path: Path, layers: int) -> None:
    """x -> MatMul, MatMul, ... -> y, and the inverse of a corner of y made dominant; weights in one external file."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    nodes, tensors = [], []
    with (path.parent / "model.data").open("wb") as data:
        for i in range(layers):
            weight = rng.standard_normal((WIDTH, WIDTH), np.float32) / np.float32(WIDTH**0.5)
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=weight.shape)
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": "model.data", "offset": str(data.tell()), "length": str(weight.nbytes)}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
            weight.tofile(data)
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{i}" if i else "x", f"w{i}"], [f"x{i + 1}"], f"n{i}"))
    constants = {
        "from": np.array([0]),
        "to": np.array([4]),
        "axis": np.array([2]),
        "eye": np.eye(4, dtype=np.float32) * 9,
    }
    tensors += [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    nodes += [
        helper.make_node("Identity", [f"x{layers}"], ["y"]),
        helper.make_node("Slice", [f"x{layers}", "from", "to", "axis"], ["corner"]),
        helper.make_node("Add", ["corner", "eye"], ["dominant"]),
        helper.make_node("InversePlugin", ["dominant"], ["z"], "inverse", domain="custom_op"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, WIDTH])]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, width])
        for name, width in (("y", WIDTH), ("z", 4))
    ]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("custom_op", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def _import() -> None:
    """What every command has before it begins."""
    import converter.pipeline  # noqa: F401

    time.sleep(3 * _INTERVAL_S)


_BARE = """
import sys
from pathlib import Path
import tensorrt_rtx as trt
logger = trt.Logger(trt.Logger.ERROR)
trt.get_plugin_registry().load_library(sys.argv[3])
builder = trt.Builder(logger)
network = builder.create_network(0)
parser = trt.OnnxParser(network, logger)
assert parser.parse_from_file(sys.argv[1]), [parser.get_error(i).desc() for i in range(parser.num_errors)]
config = builder.create_builder_config()
config.num_compute_capabilities = 1
config.set_compute_capability(trt.ComputeCapability.SM86, 0)
plan = builder.build_serialized_network(network, config)
Path(sys.argv[2]).write_bytes(plan)
"""


def _verify(path: Path) -> None:
    """What `trtsmith verify` does on the host, for one set of inputs."""
    from converter.modelfile.load import load_model
    from converter.shapes import graph_inputs
    from converter.verify.engine import onnxruntime_outputs
    from converter.verify.inputs import generate_inputs
    from converter.verify.sets import InputSet

    model = load_model(path)
    made = generate_inputs(model, graph_inputs(model.proto), {})
    onnxruntime_outputs(model, (InputSet("", made.arrays),), "tf32", print)


_STEPS: Mapping[str, Callable[..., None]] = {"import": _import, "verify": _verify}


if __name__ == "__main__":
    sys.exit(main())
