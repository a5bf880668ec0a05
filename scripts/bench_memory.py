"""Measures the memory of rewrite, convert and verify on a model of 2 GB with external data, beside the model's size.

    python scripts/bench_memory.py          # writes benchmarks/memory.json; needs 10 GB of disk and some 12 GB of memory
    python scripts/bench_memory.py --engine # with a GPU and TensorRT-RTX: writes benchmarks/<gpu>/memory.json

The model is a chain of matrix products with random float32 weights, and a custom operator at its end. Every command is a
process of its own; it and its children are sampled every 10 ms. Resident memory is told apart as the kernel does: anonymous
memory, which nothing but swap gives back, and pages of mapped files, which the system drops when it needs room. The
builder's own use is that of a process that does nothing but hand the rewritten graph to TensorRT-RTX and write the engine.
The limit holds for anonymous and mapped memory together, of all processes at once, less the builder's own; while no process
of TensorRT is there, nothing is taken off. The exit code is 1 if one is exceeded.

--engine measures all of `trtsmith verify MODEL ENGINE` and `convert --verify engine`, with the process that runs the engine
on the GPU. The model then has no custom operator: TensorRT-RTX before 1.7 imports none. What TensorRT-RTX and CUDA need to
run an engine is taken off like the builder's own use: that of a process that does nothing but load the engine and run it
once. The two are never there at the same time, so that the larger is taken off where a command has both. Memory that the
GPU's driver pins is in nobody's resident set. How far outputs may differ is no matter here, and wide.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from bench_rewrite import machine  # noqa: E402
from benchmemory.chain import WIDTH, write_model  # noqa: E402
from benchmemory.watch import Peak, peak_of  # noqa: E402
from trtsmith.converter.engine.build.gpu import find_gpu  # noqa: E402
from trtsmith.converter.engine.bundle.bundle import manifest_path  # noqa: E402
from trtsmith.converter.engine.child.environment import child_environment  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.engine.runtime.device import missing_packages, no_gpu  # noqa: E402
from trtsmith.converter.plugin.machine import slug  # noqa: E402

RECORD = "memory.json"
OUTPUT = ROOT / "benchmarks" / RECORD
LIMIT = 1.3
"""Peak memory over the builder's own use, as a multiple of the model's size."""

LAYERS = 32
"""Of the chain: as many weights of 64 MiB."""

_CLI = [sys.executable, "-m", "trtsmith"]
_STEP = [sys.executable, str(Path(__file__).resolve()), "--step"]
_BUILD, _RUN = (
    [sys.executable, str(ROOT / "scripts/benchmemory" / f"bare_{name}.py")] for name in ("build", "run")
)
_WIDE = ["--rtol", "0.1", "--atol", "0.1"]
"""Outputs are of the size of 1; TF32 changes them by some thousandths."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=LAYERS, help="weights of 64 MiB (default %(default)s)")
    parser.add_argument(
        "--engine", action="store_true", help="the process that runs the engine too, on a GPU"
    )
    parser.add_argument("--output", type=Path, help="the record")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.step:
        step, *arguments = options.step
        _STEPS[step](*map(Path, arguments))
        return 0
    gpu = find_gpu() if options.engine else None
    if options.engine:
        problem = missing_packages() if gpu else no_gpu()
        if problem:
            print(problem, file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory(prefix="trtsmith-memory-") as folder:
        measure = measured_with_engine if options.engine else measured
        record = {"machine": machine() | ({"gpu": gpu.name} if gpu else {})}
        record |= measure(Path(folder), options.layers)
    output = options.output or (ROOT / "benchmarks" / slug(gpu.name) / RECORD if gpu else OUTPUT)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    return 0 if record["within_limits"] else 1


def measured(folder: Path, layers: int) -> dict[str, Any]:
    """The record of a machine without a GPU, from processes that run one after the other."""
    model, rewritten, plan = (str(folder / name) for name in ("model.onnx", "rewritten.onnx", "model.plan"))
    write_model(Path(model), layers, custom=True)
    size = _size(folder)
    imports = peak_of([*_STEP, "import"], folder)
    rewrite = peak_of([*_CLI, "rewrite", model, "-o", rewritten, "-q"], folder)
    library = str(plugin_library())
    builder = _built_bare([rewritten, str(folder / "bare.plan"), "SM86", library], folder)
    convert = [*_CLI, "convert", model, "-o", plan, "-q", "--target", "sm86"]
    runs = {
        "rewrite": (rewrite, 0),
        "convert --no-verify": (peak_of([*convert, "--no-verify"], folder), builder.total),
        "convert --verify graph": (peak_of([*convert, "--verify", "graph"], folder), builder.total),
        "verify, all but the engine": (peak_of([*_STEP, "verify", model], folder), 0),
    }
    return _record(size, layers, imports, {"builder": builder}, runs)


def measured_with_engine(folder: Path, layers: int) -> dict[str, Any]:
    """The record of a machine with a GPU, whose engine is run."""
    model, plan = (str(folder / name) for name in ("model.onnx", "model.plan"))
    write_model(Path(model), layers, custom=False)
    size = _size(folder)
    imports = peak_of([*_STEP, "import"], folder)
    builder = _built_bare([model, str(folder / "bare.plan"), "CURRENT"], folder)
    convert = peak_of(
        [
            *_CLI,
            "convert",
            model,
            "-o",
            plan,
            "-q",
            "--flavour",
            "tensorrt_rtx",
            "--verify",
            "engine",
            *_WIDE,
        ],
        folder,
    )
    runner = peak_of([*_RUN, plan], folder, _tensorrt_environment(folder / "run"))
    verify = peak_of([*_CLI, "verify", model, plan, "-q", "--no-per-node", *_WIDE], folder)
    runs = {
        "convert --verify engine": (convert, max(builder.total, runner.total)),
        "verify": (verify, runner.total),
    }
    built_by = json.loads(manifest_path(Path(plan)).read_text(encoding="utf-8"))["tensorrt"]
    engine = {
        "tensorrt": f"{built_by['flavour']} {built_by['version']}",
        "mib": _mib(Path(plan).stat().st_size),
    }
    bare = {"builder": builder, "runner": runner}
    return {"engine": engine} | _record(size, layers, imports, bare, runs)


def _built_bare(arguments: Sequence[str], folder: Path) -> Peak:
    """The peak memory of a builder alone. Its engine is removed."""
    peak = peak_of([*_BUILD, *arguments], folder, _tensorrt_environment(folder / "build"))
    Path(arguments[1]).unlink()
    return peak


def _tensorrt_environment(work: Path) -> dict[str, str]:
    work.mkdir()
    return child_environment("tensorrt_rtx", work)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _record(
    size: int,
    layers: int,
    imports: Peak,
    bare: Mapping[str, Peak],
    runs: Mapping[str, tuple[Peak, int]],
) -> dict[str, Any]:
    """size: of the model, in bytes. runs: by command, its peak, and what TensorRT alone needs of that."""
    commands = {name: _entry(peak, own, size) for name, (peak, own) in runs.items()}
    limits = dict.fromkeys(("over_builder_over_model", "without_tensorrt_over_model"), LIMIT)
    return {
        "limits": limits,
        "model": {"mib": _mib(size), "layers": layers, "width": WIDTH},
        "imports_mib": _mib(imports.total),
        **{name: _parts(peak) for name, peak in bare.items()},
        "commands": commands,
        "within_limits": all(entry[name] <= limits[name] for entry in commands.values() for name in limits),
    }


def _entry(peak: Peak, own: int, size: int) -> dict[str, float]:
    return _parts(peak) | {
        "without_tensorrt_mib": _mib(peak.without_tensorrt),
        "beside_tensorrt_mib": _mib(peak.beside_tensorrt),
        "over_builder_over_model": round((peak.total - own) / size, 3),
        "without_tensorrt_over_model": round(peak.without_tensorrt / size, 3),
    }


def _parts(peak: Peak) -> dict[str, float]:
    return {
        "peak_mib": _mib(peak.total),
        "anonymous_mib": _mib(peak.anonymous),
        "mapped_mib": _mib(peak.mapped),
    }


def _mib(size: int) -> float:
    return round(size / 2**20, 1)


def _import() -> None:
    """What every command has before it begins, for long enough to be seen."""
    import trtsmith.converter.convert.pipeline  # noqa: F401

    time.sleep(0.05)


def _verify(path: Path) -> None:
    """What `trtsmith verify` does on the host, for one set of inputs."""
    from trtsmith.converter.model.load import load_model
    from trtsmith.converter.model.shapes import graph_inputs
    from trtsmith.converter.verify.engine import onnxruntime_outputs
    from trtsmith.converter.verify.inputs import generate_inputs
    from trtsmith.converter.verify.sets import InputSet

    model = load_model(path)
    made = generate_inputs(model, graph_inputs(model.proto), {})
    onnxruntime_outputs(model, (InputSet("", made.arrays),), "tf32", print)


_STEPS: Mapping[str, Callable[..., None]] = {"import": _import, "verify": _verify}


if __name__ == "__main__":
    sys.exit(main())
