"""Measures loading, rewriting and planning, in seconds and in memory relative to the model; and `check` as a whole.

    python scripts/bench_rewrite.py                      # writes benchmarks/rewrite.json
    python scripts/bench_rewrite.py --model model.onnx   # an exported detector that is there already
    python scripts/bench_rewrite.py --only plain --lengths 10000

The model is the full detector of models/ (exported first if --model is not given: needs PyTorch); generated graphs of
several lengths (GENERATED) show whether the time grows in proportion. Every run is a process of its own. Memory is what
the process grows by after its imports: the peak of its resident set, which counts the pages of the mapped model file that
were touched, and its anonymous memory at the end, which does not. Beside each time on the clock is the user's CPU time, for
machines that do other work too. The exit code is 1 if a limit is exceeded (LIMIT_SECONDS and the constants after it).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

OUTPUT = ROOT / "benchmarks" / "rewrite.json"
MODEL = "deformable_detr"
STAGES = ("load", "rewrite", "plan")
LENGTHS = (1_000, 10_000, 50_000)
CHECK_LENGTH = 20
CUSTOM_EVERY = 100
RULED_EVERY = 10
LIMIT_SECONDS = 2.0
LIMIT_MEMORY = 1.3
"""Of the detector: seconds for all stages, and peak growth as a multiple of the model file's size."""

GENERATED: Mapping[str, tuple[str, Mapping[str, bool]]] = {
    "plain": ("tensorrt", {"custom": False}),
    "generated": ("tensorrt", {}),
    "ruled": ("tensorrt", {"ruled": True}),
    "ruled_rtx": ("tensorrt_rtx", {"ruled": True}),
}
"""Chains of every length, by the record's key: the flavour, and arguments of `chain`."""

GENERATED_LIMITS = {
    ("plain", 10_000): (0.6, 60.0),
    ("generated", 10_000): (0.6, 60.0),
    ("ruled", 55_000): (10.0, 700.0),
    ("ruled_rtx", 55_000): (10.0, 700.0),
}
"""Of chains by the nodes that they have: seconds for all stages, and MiB of peak growth."""

LIMIT_CHECK_SECONDS = 0.35
"""Of `trtsmith check` of a small model, from the start of the process to its end."""

KINDS = ("detector", *GENERATED, "check")
PACKAGES = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime", "protobuf")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help=f"an exported {MODEL}; default: export it now")
    parser.add_argument("--runs", type=int, default=5, help="processes for each model (default %(default)s)")
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help="nodes of generated graphs")
    parser.add_argument(
        "--only", nargs="*", choices=KINDS, default=KINDS, help="parts of the record (default: all)"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the record")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--flavour", default="tensorrt", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.flavour)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        record = measured(options, Path(folder))
    record["over_limits"] = over_limits(record)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    from harness.run_record import write_record

    print(json.dumps(write_record(options.output, record, "--output"), indent=1))
    for sentence in record["over_limits"]:
        print(sentence, file=sys.stderr)
    return 1 if record["over_limits"] else 0


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The record, without its verdict."""
    from harness.run_record import machine

    record: dict[str, Any] = {
        "machine": {
            **machine(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "packages": {name: metadata.version(name) for name in PACKAGES},
        },
        "limits": {"seconds": LIMIT_SECONDS, "memory_over_model": LIMIT_MEMORY},
    }
    if "detector" in options.only:
        runs = repeat(options.model or _exported(folder), options.runs)
        record["detector"] = over_model({"model": MODEL, **summary(runs)})
    for kind, (flavour, form) in GENERATED.items():
        if kind in options.only:
            made = ((f"{length}", chain(length, **form)) for length in options.lengths)
            record[kind] = [summary(repeat(path, options.runs, flavour)) for path in _written(made, folder)]
    if "check" in options.only:
        (path,) = _written([("small", chain(CHECK_LENGTH, custom=False))], folder)
        run_check(path, folder)  # writes the bytecode
        record["check"] = check_summary([run_check(path, folder) for _ in range(options.runs)])
    return record


def _written(models: Iterable[tuple[str, Any]], folder: Path) -> Iterator[Path]:
    for name, model in models:
        path = folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        yield path


def measure(path: Path, flavour: str = "tensorrt") -> dict[str, Any]:
    """Measures one run in this process: seconds by stage, growth of memory in bytes, nodes, routes."""
    import trtsmith.converter.model.ort  # noqa: F401  which folding imports when it has something to fold
    from trtsmith.converter.convert.plan import native_operators, plan
    from trtsmith.converter.model.load import load_model
    from trtsmith.converter.rewrite.rewrite import rewrite
    from trtsmith.converter.rewrite.target import Target

    native_operators()  # a table that is read once, like the imports
    reset_peak()
    before, started = status(), resource.getrusage(resource.RUSAGE_SELF)
    marks = [time.perf_counter()]
    model = load_model(path)
    marks.append(time.perf_counter())
    rewritten = rewrite(model, Target(flavour))
    marks.append(time.perf_counter())
    planned = plan(rewritten)
    marks.append(time.perf_counter())
    after, ended = status(), resource.getrusage(resource.RUSAGE_SELF)
    if not planned.convertible:
        raise SystemExit(f"{path} is not convertible: {planned.problems[0]}")
    return {
        "nodes": len(model.proto.graph.node),
        "routes": planned.routes(),
        "model_bytes": sum(file.size for file in model.files.values()),
        "seconds": {name: b - a for name, a, b in zip(STAGES, marks, marks[1:], strict=False)},
        "user_seconds": ended.ru_utime - started.ru_utime,
        "peak_growth": after["VmHWM"] - before["VmHWM"],
        "anonymous_growth": after["RssAnon"] - before["RssAnon"],
    }


def reset_peak() -> None:
    """Resets VmHWM to the memory that is resident now; without permission it stays at the peak of the imports."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print(
            "note: the peak cannot be reset here; growth below the imports' peak is not seen", file=sys.stderr
        )


def status() -> dict[str, int]:
    """Memory of this process in bytes, by the names of /proc/self/status."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return {name: int(kilobytes) * 1024 for name, kilobytes in lines}


def repeat(path: Path, runs: int, flavour: str = "tensorrt") -> list[dict[str, Any]]:
    """Runs measure() in a fresh process each time. Raises CalledProcessError if one fails."""
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", str(path), "--flavour", flavour]
    return [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for _ in range(runs)
    ]


def run_check(path: Path, bytecode: Path) -> dict[str, float]:
    """Runs `trtsmith check` on a model in a child process. Raises CalledProcessError if it fails.

    bytecode: a folder for it: `pip install` compiles what it installs, and a checkout may not be written to.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    command = [sys.executable, "-m", "trtsmith", "check", "--quiet", str(path), "--flavour", "tensorrt"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": ended - began, "user_seconds": after.ru_utime - before.ru_utime}


def check_summary(runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Medians of the runs of `check`."""
    medians = {
        key: round(statistics.median(run[key] for run in runs), 4) for key in ("seconds", "user_seconds")
    }
    return {"nodes": CHECK_LENGTH, "runs": len(runs), **medians}


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the runs of one model; for memory the largest."""
    totals = [sum(run["seconds"].values()) for run in runs]
    peak = max(run["peak_growth"] for run in runs)
    return {
        "nodes": runs[0]["nodes"],
        "routes": runs[0]["routes"],
        "model_mib": mib(runs[0]["model_bytes"]),
        "runs": len(runs),
        "seconds": {
            stage: round(statistics.median(run["seconds"][stage] for run in runs), 4) for stage in STAGES
        },
        "total_seconds": round(statistics.median(totals), 4),
        "slowest_seconds": round(max(totals), 4),
        "user_seconds": round(statistics.median(run["user_seconds"] for run in runs), 4),
        "peak_growth_mib": mib(peak),
        "anonymous_growth_mib": mib(max(run["anonymous_growth"] for run in runs)),
    }


def over_model(entry: dict[str, Any]) -> dict[str, Any]:
    """The same, with the growth of memory as a multiple of the model's size, which means little for a few kilobytes."""
    return entry | {"peak_growth_over_model": round(entry["peak_growth_mib"] / entry["model_mib"], 3)}


def over_limits(record: Mapping[str, Any]) -> list[str]:
    """A sentence for each limit that is exceeded."""
    found = []
    if "detector" in record:
        seconds, memory = record["detector"]["total_seconds"], record["detector"]["peak_growth_over_model"]
        if seconds >= LIMIT_SECONDS or memory > LIMIT_MEMORY:
            limits = f"less than {LIMIT_SECONDS:g} s and at most {LIMIT_MEMORY:g} times"
            found.append(
                f"the detector takes {seconds:g} s and {memory:g} times the model's memory, not {limits}"
            )
    for kind in GENERATED:
        for entry in record.get(kind, ()):
            most_s, most_mib = GENERATED_LIMITS.get((kind, entry["nodes"]), (math.inf, math.inf))
            seconds, memory = entry["total_seconds"], entry["peak_growth_mib"]
            if seconds > most_s or memory > most_mib:
                what = f"{entry['nodes']} nodes of {kind!r} take {seconds:g} s and {memory:g} MiB"
                found.append(f"{what}, not at most {most_s:g} s and {most_mib:g} MiB")
    seconds = record["check"]["seconds"] if "check" in record else 0.0
    if seconds > LIMIT_CHECK_SECONDS:
        found.append(f"`trtsmith check` takes {seconds:g} s, not at most {LIMIT_CHECK_SECONDS:g} s")
    return found


def chain(length: int, *, ruled: bool = False, custom: bool = True) -> Any:
    """A model of `length` nodes in a row on 4x4 matrices: Add with a weight, Relu, and every 100th an Inverse.

    custom: whether there is any Inverse.
    ruled: every 10th is a LayerNormalization whose mean is read, which a rule replaces by its function body of 19 nodes.
    """
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights = [], []
    for i in range(length):
        inputs, outputs, name = [f"x{i}"], [f"x{i + 1}"], f"node{i}"
        if custom and i % CUSTOM_EVERY == CUSTOM_EVERY - 1:
            nodes.append(helper.make_node("Inverse", inputs, outputs, name, domain="com.microsoft"))
        elif ruled and i % RULED_EVERY == 0:
            made = [f"normalised{i}", f"mean{i}"]
            nodes.append(helper.make_node("LayerNormalization", [*inputs, "scale"], made, name))
            nodes.append(helper.make_node("Add", made, outputs, f"{name}_mean"))
        elif i % 2:
            nodes.append(helper.make_node("Relu", inputs, outputs, name))
        else:
            weights.append(numpy_helper.from_array(np.full((4, 4), i, np.float32), f"w{i}"))
            nodes.append(helper.make_node("Add", [*inputs, f"w{i}"], outputs, name))
    if ruled:
        weights.append(numpy_helper.from_array(np.ones(4, np.float32), "scale"))
    shape: list[str | int | None] = ["batch", 4, 4]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{length}", TensorProto.FLOAT, shape)],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def mib(size: int) -> float:
    return round(size / 2**20, 2)


def _exported(folder: Path) -> Path:
    command = [sys.executable, "-m", "models.export", MODEL, "-o", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=sys.stderr)
    return folder / f"{MODEL}.onnx"


if __name__ == "__main__":
    sys.exit(main())
