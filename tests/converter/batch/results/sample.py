"""Sample records of conversions: some of each status, with reports, times and names that look like HTML."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trtsmith.converter.batch.results.document import RUN, task_row
from trtsmith.converter.batch.results.pages import write_rows
from trtsmith.converter.batch.task import FileFacts, TaskRecord, TaskStatus
from trtsmith.importers.problem import Problem

HOSTILE_NAMES = (
    "</script><script>document.title = 'taken'</script>",
    '<img src=x onerror="document.title = 1">',
    "two\nlines and a tab\t",
    "quotes \" ' ` &amp; {{x}} ${y}",
    "عربي نموذج",
    "\u202eright to left",
    "a\ud800lone surrogate",
    "control \x00\x01\x1b[31m",
    "javascript:alert(1)",
)

VERSIONS = {"trtsmith": "0.1.0", "tensorrt_rtx": "1.7.1.116", "onnx": "1.23.2"}
PROBLEM = Problem(
    "no importer for operator mmcv::TemporalShift",
    "node '/shift' (mmcv::TemporalShift)",
    "an operator that TensorRT's ONNX parser imports",
    "load a library that has it with --plugins",
)


def report(
    *,
    relative: float = 2e-5,
    used: float | None = 0.2,
    agrees: bool = True,
    size: int = 842_524,
    outputs: int = 2,
    routes: Mapping[str, int] | None = None,
    **changed: Any,
) -> dict[str, Any]:
    """What `trtsmith convert --report` writes, with these figures."""
    comparisons = [
        {
            "output": f"y{number}", "dtype": "float32", "shape": [2, 4, 32, 32], "agrees": agrees,
            "reason": f"relative error {relative:.1e}, allowed 0.0001", "relative": relative, "max": 0.0, "mean": 0.0,
            "p99": 0.0, "worst": [0, 0, 0, 0], "cosine": 1.0, "expected": 0.5, "actual": 0.5, "compared": 8192, "at": "",
            "used": used,
        }
        for number in range(outputs)
    ]  # fmt: skip
    status = "agree" if agrees else "disagree"
    return {
        "converted": True,
        "trtsmith": "0.1.0",
        "model": "/zoo/net.onnx",
        "engine": {
            "engine_path": "model.plan", "size": size, "seconds": 1.0, "flavour": "tensorrt_rtx", "version": "1.7.1.116",
            "targets": ["sm86"], "inputs": [], "outputs": [], "layers": 9, "plugin_layers": ["/neck/dcn"], "warnings": [],
        },
        "routes": {"native": 7, "plugin": 1} if routes is None else dict(routes),
        "warnings": [],
        "seconds": {"load": 0.002, "build": 1.005},
        "verdict": {
            "status": status, "reason": f"largest relative error {relative:.1e}", "engine_run": False,
            "basis": ["graph only"],
            "inputs": "generated", "comparisons": comparisons, "warnings": [], "not_run": "there is no NVIDIA GPU here",
        },
    } | changed  # fmt: skip


def times(median: float = 1.5, p90: float | None = None, **changed: Any) -> dict[str, Any]:
    """What `trtsmith bench --json` writes, for one run."""
    factors = {"min": 0.99, "median": 1, "mean": 1, "p90": 1.01, "p95": 1.02, "p99": 1.05, "max": 1.2}
    latency = {name: median * factor for name, factor in factors.items()} | {"count": 500, "variation": 0.01}
    run = {"point": "opt", "shapes": {"images": [1, 3, 64, 64]}, "batch": 1, "cuda_graph": False, "streams": 1,
           "transfers": True, "throughput": 1e3 / median, "compute_ms": latency,
           "latency_ms": latency | ({} if p90 is None else {"p90": p90})} | changed  # fmt: skip
    return {"format": 1, "gpu": "NVIDIA L4", "driver": "580.1", "runs": [run], "layers": None, "warnings": []}


def search() -> dict[str, Any]:
    """What `trtsmith tune --json` writes: another engine is faster than the default."""
    default, best = (
        {
            "flags": flags,
            "failed": "",
            "ms": ms,
            "error": error,
            "share_of_bound": 0.5,
            "bytes": 9,
            "device_memory": 9,
        }
        for flags, ms, error in (("--precision fp16", 0.75, 0.001), ("--precision bf16", 0.5, 0.002))
    )
    found = {"format": 1, "best": best, "default": default, "bounds": {"": 0.004}, "trials": [default, best]}
    return found | {"recipe": None, "seconds": 9.0, "sets": 1, "unseen": 0}


def record(
    name: str, status: TaskStatus = TaskStatus.AGREE, variant: Mapping[str, str] | None = None, **changed: Any
) -> TaskRecord:
    """The record of a task. Without a report of its own it has one that fits its status."""
    fields: dict[str, Any] = {
        "name": name,
        "model": name.split("/")[0] if variant else name,
        "variant": variant or {},
        "status": status,
        "command": ("trtsmith", "convert", f"/zoo/{name}.onnx", "-o", "model.plan", "--shapes", "x=1x3"),
        "seconds": {"convert": 2.5, "total": 3.0},
        "peak_mib": 512.0,
        "place": {"host": "node-1", "gpu": "", "pid": 4242},
        "versions": VERSIONS,
        "began": "2026-11-23T12:00:00Z",
    }
    if status in (TaskStatus.AGREE, TaskStatus.CONVERTED, TaskStatus.DISAGREE):
        fields["report"] = report(agrees=status is not TaskStatus.DISAGREE)
        fields["files"] = {
            "model.plan": FileFacts("ab" * 32, 842_524),
            "report.html": FileFacts("cd" * 32, 90_000),
        }
    else:
        fields["problems"] = (PROBLEM,)
    return TaskRecord(**(fields | changed))


def zoo(models: int = 25, seed: int = 0) -> Iterator[TaskRecord]:
    """Eight variants of each model, with all that a batch may bring."""
    draw = random.Random(seed)
    statuses = [TaskStatus.AGREE] * 30 + [TaskStatus.CONVERTED] * 2 + list(TaskStatus)
    for number in range(models):
        model = f"network-{number:03d}"
        for precision in ("fp32", "fp16", "bf16", "int8"):
            for target in ("sm86", "sm89"):
                status = draw.choice(statuses)
                made: dict[str, Any] = {}
                if status in (TaskStatus.AGREE, TaskStatus.CONVERTED, TaskStatus.DISAGREE):
                    used = (
                        draw.uniform(1.1, 300) if status is TaskStatus.DISAGREE else draw.uniform(0, 0.9) ** 2
                    )
                    made["report"] = report(
                        relative=used * 1e-4,
                        used=used,
                        agrees=status is not TaskStatus.DISAGREE,
                        size=int(10 ** draw.uniform(5, 9)),
                        routes={"native": draw.randint(20, 900), "plugin": draw.randint(0, 12)},
                        warnings=["the engine no longer reads input 'x'"] * draw.choice((0, 0, 1)),
                    )
                    made["bench"] = times(10 ** draw.uniform(-1, 2)) if target == "sm89" else None
                made["seconds"] = {"load": 0.1, "build": draw.uniform(1, 80), "total": draw.uniform(80, 90)}
                variant = {"precision": precision, "target": target}
                yield record(f"{model}/{precision}-{target}", status, variant, **made)


def write_results(
    folder: Path, records: Iterable[TaskRecord], *, sources: Mapping[str, str] | None = None, **more: Any
) -> None:
    """The pages of these records. sources: "run" where none is given."""
    known = sources or {}
    write_rows(folder, [task_row(record, known.get(record.name, RUN)) for record in records], **more)


def write_pair(folder: Path, old: Iterable[TaskRecord], new: Iterable[TaskRecord]) -> None:
    """Two results, in the folders `old` and `new`."""
    for name, records in (("old", old), ("new", new)):
        (folder / name).mkdir(exist_ok=True)
        write_results(folder / name, records)
