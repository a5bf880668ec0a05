"""Measure loading, rewriting and planning: seconds, and memory beside the size of the model.

    python scripts/bench_rewrite.py                      # writes benchmarks/rewrite.json
    python scripts/bench_rewrite.py --model model.onnx   # an exported detector that is there already

The model is the full detector of models/ (exported first if --model is not given: needs PyTorch); generated graphs of
several lengths show whether the time grows in proportion. Every run is a process of its own. Memory is what the process
grows by after its imports: the peak of its resident set, which counts the pages of the mapped model file that were
touched, and its anonymous memory at the end, which does not. The exit code is 1 if the detector exceeds a limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

OUTPUT = ROOT / "benchmarks" / "rewrite.json"
MODEL = "deformable_detr"
STAGES = ("load", "rewrite", "plan")
LENGTHS = (1_000, 10_000, 50_000)
CUSTOM_EVERY = 100
RULED_EVERY = 10
LIMIT_SECONDS = 2.0
LIMIT_MEMORY = 1.3
"""Of the detector: seconds for all stages, and peak growth as a multiple of the model file's size."""

PACKAGES = ("numpy", "onnx", "onnx-graphsurgeon", "onnxruntime", "protobuf")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help=f"an exported {MODEL}; default: export it now")
    parser.add_argument("--runs", type=int, default=5, help="processes for each model (default %(default)s)")
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS, help="nodes of generated graphs")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the record")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure is not None:
        print(json.dumps(measure(options.measure)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or _exported(Path(folder))
        record: dict[str, Any] = {
            "machine": machine(),
            "limits": {"seconds": LIMIT_SECONDS, "memory_over_model": LIMIT_MEMORY},
            "detector": over_model({"model": MODEL, **summary(repeat(model, options.runs))}),
            "generated": [],
            "ruled": [],
        }
        for length in options.lengths:
            path = Path(folder) / f"{length}.onnx"
            for kind, ruled in (("generated", False), ("ruled", True)):
                path.write_bytes(chain(length, ruled=ruled).SerializeToString())
                record[kind].append(summary(repeat(path, options.runs)))
                path.unlink()
    record["within_limits"] = within_limits(record["detector"])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))
    return 0 if record["within_limits"] else 1


def measure(path: Path) -> dict[str, Any]:
    """One run in this process: seconds by stage, growth of memory in bytes, nodes, routes."""
    import time

    from trtsmith.converter.convert.plan import native_operators, plan
    from trtsmith.converter.model.load import load_model
    from trtsmith.converter.rewrite.rewrite import rewrite

    native_operators()  # a table that is read once, like the imports
    reset_peak()
    before = status()
    marks = [time.perf_counter()]
    model = load_model(path)
    marks.append(time.perf_counter())
    rewritten = rewrite(model)
    marks.append(time.perf_counter())
    planned = plan(rewritten)
    marks.append(time.perf_counter())
    after = status()
    if not planned.convertible:
        raise SystemExit(f"{path} is not convertible: {planned.problems[0]}")
    return {
        "nodes": len(model.proto.graph.node),
        "routes": planned.routes(),
        "model_bytes": sum(file.size for file in model.files.values()),
        "seconds": {name: b - a for name, a, b in zip(STAGES, marks, marks[1:], strict=False)},
        "peak_growth": after["VmHWM"] - before["VmHWM"],
        "anonymous_growth": after["RssAnon"] - before["RssAnon"],
    }


def reset_peak() -> None:
    """Let VmHWM start again from what is resident now. Without permission it stays at the peak of the imports."""
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


def repeat(path: Path, runs: int) -> list[dict[str, Any]]:
    """measure() in a fresh process each time. Raises CalledProcessError if one fails."""
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", str(path)]
    return [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for _ in range(runs)
    ]


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over runs of one model; for memory the largest."""
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
        "peak_growth_mib": mib(peak),
        "anonymous_growth_mib": mib(max(run["anonymous_growth"] for run in runs)),
    }


def over_model(entry: dict[str, Any]) -> dict[str, Any]:
    """The same, with the growth of memory as a multiple of the model. It says nothing of a model of a few kilobytes."""
    return entry | {"peak_growth_over_model": round(entry["peak_growth_mib"] / entry["model_mib"], 3)}


def within_limits(detector: dict[str, Any]) -> bool:
    return bool(
        detector["total_seconds"] < LIMIT_SECONDS and detector["peak_growth_over_model"] <= LIMIT_MEMORY
    )


def chain(length: int, *, ruled: bool = False) -> Any:
    """A model of `length` nodes in a row on 4x4 matrices: Add with a weight, Relu, and every 100th an Inverse.

    ruled: every 10th is a LayerNormalization whose mean is read, which a rule replaces by its function body of 19 nodes.
    """
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights = [], []
    for i in range(length):
        inputs, outputs, name = [f"x{i}"], [f"x{i + 1}"], f"node{i}"
        if i % CUSTOM_EVERY == CUSTOM_EVERY - 1:
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


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu[1].strip() if cpu else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
    }


def mib(size: int) -> float:
    return round(size / 2**20, 2)


def _exported(folder: Path) -> Path:
    command = [sys.executable, "-m", "models.export", MODEL, "-o", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=sys.stderr)
    return folder / f"{MODEL}.onnx"


if __name__ == "__main__":
    sys.exit(main())
