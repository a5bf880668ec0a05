"""Times the networks of models/ on a GPU: engine with plugins, engine of standard operators, PyTorch, torch.compile.

    python3 scripts/bench_networks.py --bundle DIR   # writes benchmarks/<gpu>/networks.json

Every network in every precision is a process of its own. All of them build and compile side by side; then one after
another is timed, its ways in turn on the same inputs, engines as CUDA graphs. Inputs are on the GPU: float32 for engines, as
`convert` leaves them, and in the precision for PyTorch. Errors are against PyTorch in float64. --bundle: what
scripts/gpu_bundle.py unpacked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import model_folder  # noqa: E402
from harness.jobs import run_jobs  # noqa: E402
from harness.run_record import add_resume, add_seconds, gpu_parser, gpu_record  # noqa: E402
from networkbench.graphs import NETWORKS  # noqa: E402

FORMAT = 1
PRECISIONS = ("fp32", "fp16", "bf16")
DECISIONS = ROOT / "benchmarks" / "networks_float16.json"
"""Of networkbench/decisions.py."""
WAYS = (
    "plugins",
    "plugins, softmax apart",
    "native",
    "GridSample",
    "eager",
    "compile",
    "compile, CUDA graphs",
)

BATCHES = {"centernet_dcn": (1, 8), "vision_mamba": (1, 8), "pointnet2": (1, 8)}
"""Of networks that are measured at another batch than 1."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    end = time.monotonic() + arguments.seconds
    jobs = [
        f"{name}:{precision}:{batch}"
        for name in arguments.network
        for precision in arguments.precision
        for batch in BATCHES.get(name, (1,))
    ]
    record = gpu_record(arguments, "networks.json", jobs, job_of=_job, format=FORMAT)
    left = record.left
    options: dict[str, Any] = {
        "bundle": str(model_folder(arguments.bundle)),
        "ways": arguments.way,
        "decisions": json.loads(DECISIONS.read_text(encoding="utf-8")),
        "count": len(left),
        "gate": arguments.gate,
        "making_s": arguments.making_seconds,
    }
    with tempfile.TemporaryDirectory(prefix="bench-networks-") as name:
        folder, module = Path(name), "networkbench.job"
        for job, finding in run_jobs(
            module, deque(left), len(left), arguments.seconds, folder, end, **options
        ):
            if finding.died:
                (folder / f"{job}.made").touch()
            network, precision, batch = job.split(":")
            row = {"network": network, "precision": precision, "batch": int(batch)}
            row |= {"died": finding.died} if finding.died else finding.found
            record.add(job, row)
            print(_line(row), flush=True)
    measured = sum("died" not in row for row in record.rows)
    print(f"{measured} of {len(jobs)} measured on {record.head['gpu']}")
    return 1 if measured < len(jobs) else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = gpu_parser(__doc__)
    add_seconds(parser, 500.0)
    add_resume(parser)
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="these only")
    parser.add_argument(
        "--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="these only"
    )
    parser.add_argument("--way", nargs="+", choices=WAYS, default=list(WAYS), help="these only")
    parser.add_argument(
        "--making-seconds",
        type=float,
        default=200.0,
        help="for what is built and compiled (default %(default)g)",
    )
    parser.add_argument("--gate", default="", help="a file: nothing is timed before it is there")
    arguments = parser.parse_args(argv)
    if arguments.bundle is None:
        parser.error("--bundle is needed: the networks are in it")
    return arguments


def _job(row: dict[str, Any]) -> str:
    return f"{row['network']}:{row['precision']}:{row['batch']}"


def _line(row: dict[str, Any]) -> str:
    head = f"{row['network']} {row['precision']} batch {row['batch']}"
    if "died" in row:
        return f"{head}: {row['died']}"
    shown = [
        f"{way} {it['median_ms']:.3f} ms" if "median_ms" in it else f"{way} {it['unavailable']}"
        for way, it in row["rows"].items()
    ]
    return f"{head}: {'; '.join(shown)}"


if __name__ == "__main__":
    sys.exit(main())
