"""Times networks of real size on a GPU in the ways open to a user: our engines, TensorRT's own import, PyTorch.

    python3 scripts/bench_real_networks.py --bundle DIR   # writes benchmarks/<gpu>/real_networks.json

Exported on the spot (scripts/realnetworks/networks.py), with random weights. Every network is a process of its own. All are
exported, converted and compiled side by side; then one after another is timed, its ways in turn on the same inputs, all as
CUDA graphs. Errors are of the worst output, ||y - x|| / ||x||, against PyTorch in float32 without TF32. --bundle: what
scripts/gpu_bundle.py unpacked.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.jobs import run_jobs  # noqa: E402
from harness.run_record import add_resume, add_seconds, gpu_parser, gpu_record  # noqa: E402

DEFAULT = ("import half", "compile half", "fp16")


def main(argv: Sequence[str] | None = None) -> int:
    parser = gpu_parser(__doc__)
    add_seconds(parser, 500.0)
    add_resume(parser)
    parser.add_argument("--network", nargs="+", help="these only")
    parser.add_argument("--way", nargs="+", default=list(DEFAULT), help="default: %(default)s")
    parser.add_argument("--layers", action="store_true", help="profile engines by layer, too")
    parser.add_argument(
        "--making-seconds", type=float, default=300.0, help="to export, convert, compile (%(default)g)"
    )
    arguments = parser.parse_args(argv)
    end = time.monotonic() + arguments.seconds
    record = gpu_record(arguments, "real_networks.json", job_of=lambda row: str(row["network"]))
    from realnetworks.job import WAYS  # PyTorch may be in the bundle
    from realnetworks.networks import NETWORKS

    unknown = {*arguments.way} - {*WAYS} | {*(arguments.network or ())} - {*NETWORKS}
    if unknown:
        parser.error(f"neither a way nor a network: {', '.join(sorted(unknown))}; ways: {'; '.join(WAYS)}")
    record.order = jobs = arguments.network or list(NETWORKS)
    left = record.left
    options: dict[str, Any] = {
        "ways": arguments.way,
        "count": len(left),
        "making_s": arguments.making_seconds,
        "layers": arguments.layers,
    }
    with tempfile.TemporaryDirectory(prefix="bench-real-") as folder:
        for job, finding in run_jobs(
            "realnetworks.job", deque(left), len(left), arguments.seconds, Path(folder), end, **options
        ):
            row = {"network": job, **({"died": finding.died} if finding.died else finding.found)}
            record.add(job, row)
            print(_line(row), flush=True)
    measured = sum("died" not in row for row in record.rows)
    print(f"{measured} of {len(jobs)} measured on {record.head['gpu']}")
    return 1 if measured < len(jobs) else 0


def _line(row: dict[str, Any]) -> str:
    if "died" in row:
        return f"{row['network']}: {row['died']}"
    shown = [
        f"{way} {it['median_ms'] * 1e3:.0f} us / {it['error']:.1e}"
        if "median_ms" in it
        else f"{way} {it['unavailable'][:150]}"
        for way, it in row["rows"].items()
    ]
    return f"{row['network']}: {'; '.join(shown)}"


if __name__ == "__main__":
    sys.exit(main())
