"""Times plugin against native: each operator as our kernel and as its expansion into standard operators, on a GPU.

    python3 scripts/plugin_vs_native.py              # writes benchmarks/<gpu>/plugin_vs_native.json

The sizes are those of the definitions' benchmarks. The kernel runs through the plugin host; the expansion is built into
a TensorRT-RTX engine here, of which index inputs, weight and bias are constants. Both run in one process on the same
tensors: sets of inputs that together are larger than the L2 cache, in turn, each run between two CUDA events, with the
GPU kept busy until both are queued; and both are compared with float64. In float16 the expansion computes in float32
between two casts, as the kernel accumulates in float32. Needs an NVIDIA GPU, TensorRT-RTX (any version: no engine here
has a plugin; --bundle: that of scripts/gpu_bundle.py), PyTorch with CUDA, onnx and onnxruntime.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import SITE, with_bundle  # noqa: E402
from harness.jobs import RETIRE, Finding, run_jobs  # noqa: E402
from trtsmith.converter.bench.node import measure_node, ratio_of  # noqa: E402
from trtsmith.converter.engine.build.gpu import find_gpu  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.model.errors import TrtsmithError  # noqa: E402
from trtsmith.converter.model.output_file import write_report  # noqa: E402
from trtsmith.converter.plugin.bench.kernel_bench import LEAST_COUNT  # noqa: E402
from trtsmith.converter.plugin.cases import SEED  # noqa: E402
from trtsmith.converter.plugin.machine import describe, slug  # noqa: E402
from trtsmith.importers.registry import OPS, by_name  # noqa: E402

FORMAT = 1
DTYPES = ("float32", "float16")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if a figure is missing."""
    arguments = parse(argv)
    end = time.monotonic() + arguments.seconds
    if arguments.bundle is not None:
        os.environ.update(with_bundle(arguments.bundle, os.environ))
        sys.path.insert(0, str(arguments.bundle / SITE))
    if find_gpu() is None:
        print(
            "no GPU is found: run scripts/plugin_vs_native.py where there is an NVIDIA GPU", file=sys.stderr
        )
        return 2
    words = ["python3", "scripts/plugin_vs_native.py", "--count", str(arguments.count)]
    try:
        head = describe(ROOT, [plugin_library()], arguments.commit) | {"command": " ".join(words)}
    except TrtsmithError as error:
        print(error.problems[0], file=sys.stderr)
        return error.exit_code
    output = arguments.output or ROOT / "benchmarks" / slug(head["gpu"]) / "plugin_vs_native.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    jobs = jobs_of(arguments.op, arguments.dtype)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="plugin-vs-native-") as folder:
        for job, finding in run_jobs(
            "plugin_vs_native",
            deque(jobs),
            1,
            arguments.item_seconds,
            Path(folder),
            end,
            count=arguments.count,
        ):
            rows.append(row_of(job, finding, head))
            write_report(output, to_json(head, rows), "--output")
            print(rows[-1], file=sys.stderr, flush=True)
    missing = sum("ratio" not in row for row in rows)
    print(f"{len(jobs) - missing} of {len(jobs)} measured on {head['gpu']}; recorded in {output.name}")
    return 1 if missing else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [op.name for op in OPS if op.benchmarks]
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="what scripts/gpu_bundle.py unpacked")
    parser.add_argument("--op", nargs="+", choices=names, default=names, help="these operators only")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES, help="of both")
    parser.add_argument(
        "--count", type=int, default=LEAST_COUNT, help="timed runs of each (default %(default)d)"
    )
    parser.add_argument("--seconds", type=float, default=140.0, help="for all together (default %(default)g)")
    parser.add_argument(
        "--item-seconds", type=float, default=40.0, help="for one case in one dtype (default %(default)g)"
    )
    parser.add_argument("--output", type=Path, help="the record")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    return parser.parse_args(argv)


def jobs_of(ops: Sequence[str], dtypes: Sequence[str]) -> list[str]:
    """What is timed, the first case of every operator first, so that what is ended early has something of each."""
    by_op = [
        [f"{op.name}:{case.name}:{dtype}" for case in op.benchmarks for dtype in dtypes]
        for op in OPS
        if op.name in ops
    ]
    return [job for turn in zip_longest(*by_op) for job in turn if job is not None]


def row_of(job: str, finding: Finding, head: dict[str, Any]) -> dict[str, Any]:
    """The job's figures, or why there are none, and how many times the plugin's time the native form takes."""
    op, case, dtype = job.split(":")
    if finding.died:
        sides = {side: {"unavailable": finding.died} for side in ("plugin", "native")}
    else:
        head["tensorrt"] = finding.found["tensorrt"]
        sides = {side: finding.found[side] for side in ("plugin", "native")}
    ratio = ratio_of(sides["plugin"], sides["native"])
    return {"op": op, "case": case, "dtype": dtype, **sides, **({} if ratio is None else {"ratio": ratio})}


def to_json(head: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    order = {op.name: number for number, op in enumerate(OPS)}
    return {"format": FORMAT, **head, "rows": sorted(rows, key=lambda row: order[row["op"]])}


def work(job: str, folder: Path, count: int) -> dict[str, Any]:
    """Runs in a worker, whose last job it is if anything failed."""
    import numpy as np

    from trtsmith.converter.engine.build.flavour import load_flavour
    from trtsmith.converter.plugin.bench.kernel_torch import open_bench

    del folder
    name, case_name, dtype = job.split(":")
    op = by_name()[name]
    case = next(case for case in op.benchmarks if case.name == case_name)
    flavour = load_flavour()
    found: dict[str, Any] = {"tensorrt": flavour.title}
    with open_bench(plugin_library(), 0.0) as bench:
        generated = case.inputs(np.random.default_rng(SEED))
        measure_node(bench, flavour, op, case, generated, dtype, count, found.__setitem__)
    return found | {RETIRE: any("unavailable" in found[side] for side in ("plugin", "native"))}


if __name__ == "__main__":
    sys.exit(main())
