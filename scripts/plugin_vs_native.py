"""Times plugin against native on a GPU: each operator as our kernel, and expanded into standard operators.

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
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.jobs import RETIRE, Finding, run_jobs  # noqa: E402
from harness.run_record import add_resume, add_seconds, gpu_parser, gpu_record, use_bundle  # noqa: E402
from trtsmith.converter.base.errors import TrtsmithError  # noqa: E402
from trtsmith.converter.bench.node_worker import measure_node, ratio_of  # noqa: E402
from trtsmith.converter.engine.builder.gpu import find_gpu  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.plugin.bench.kernel_bench import LEAST_COUNT  # noqa: E402
from trtsmith.converter.plugin.cases import SEED  # noqa: E402
from trtsmith.importers.registry import OPS, by_name  # noqa: E402

FORMAT = 1
DTYPES = ("float32", "float16")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns exit code 1 if a figure is missing."""
    arguments = parse(argv)
    end = time.monotonic() + arguments.seconds
    use_bundle(arguments.bundle)
    if find_gpu() is None:
        print(
            "no GPU is found: run scripts/plugin_vs_native.py where there is an NVIDIA GPU", file=sys.stderr
        )
        return 2
    jobs = jobs_of(arguments.op, arguments.dtype)
    in_order = sorted(jobs, key=lambda job: list(by_name()).index(job.split(":")[0]))
    try:
        record = gpu_record(arguments, "plugin_vs_native.json", in_order, job_of=_job, format=FORMAT)
    except TrtsmithError as error:
        print(error.problems[0], file=sys.stderr)
        return error.exit_code
    with tempfile.TemporaryDirectory(prefix="plugin-vs-native-") as folder:
        limit_s, options = arguments.item_seconds, {"count": arguments.count}
        for job, finding in run_jobs(
            "plugin_vs_native",
            deque(job for job in jobs if job in {*record.left}),
            1,
            limit_s,
            Path(folder),
            end,
            **options,
        ):
            record.add(job, row_of(job, finding, record.head))
            print(*record.found[job], file=sys.stderr, flush=True)
    missing = sum("ratio" not in row for row in record.rows)
    print(f"{len(jobs) - missing} of {len(jobs)} measured on {record.head['gpu']}")
    return 1 if missing else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = gpu_parser(__doc__)
    add_seconds(parser, 140.0)
    add_resume(parser)
    names = [op.name for op in OPS if op.benchmarks]
    parser.add_argument("--op", nargs="+", choices=names, default=names, help="these operators only")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES, help="of both")
    parser.add_argument(
        "--count", type=int, default=LEAST_COUNT, help="timed runs of each (default %(default)d)"
    )
    parser.add_argument(
        "--item-seconds", type=float, default=40.0, help="for one case in one dtype (default %(default)g)"
    )
    return parser.parse_args(argv)


def jobs_of(ops: Sequence[str], dtypes: Sequence[str]) -> list[str]:
    """The jobs, with the first case of every operator first, so that an early end leaves figures for each."""
    by_op = [
        [f"{op.name}:{case.name}:{dtype}" for case in op.benchmarks for dtype in dtypes]
        for op in OPS
        if op.name in ops
    ]
    return [job for turn in zip_longest(*by_op) for job in turn if job is not None]


def _job(row: dict[str, Any]) -> str:
    return f"{row['op']}:{row['case']}:{row['dtype']}"


def row_of(job: str, finding: Finding, head: dict[str, Any]) -> dict[str, Any]:
    """The job's figures or the reason for their absence, and the native time over the plugin's."""
    op, case, dtype = job.split(":")
    if finding.died:
        sides = {side: {"unavailable": finding.died} for side in ("plugin", "native")}
    else:
        head["tensorrt"] = finding.found["tensorrt"]
        sides = {side: finding.found[side] for side in ("plugin", "native")}
    ratio = ratio_of(sides["plugin"], sides["native"])
    return {"op": op, "case": case, "dtype": dtype, **sides, **({} if ratio is None else {"ratio": ratio})}


def work(job: str, folder: Path, count: int) -> dict[str, Any]:
    """Runs a job in a worker, and retires the worker after a failure."""
    import numpy as np

    from trtsmith.converter.engine.builder.flavour import load_flavour
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
