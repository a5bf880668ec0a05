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
import os
import shlex
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import SITE, model_folder, with_bundle  # noqa: E402
from harness.jobs import run_jobs  # noqa: E402
from networkbench.graphs import NETWORKS  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.model.output_file import write_report  # noqa: E402
from trtsmith.converter.plugin.machine import describe, slug  # noqa: E402

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

BATCHES = {"centernet_dcn": (1, 8)}
"""Of networks that are measured at another batch than 1."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    end = time.monotonic() + arguments.seconds
    os.environ.update(with_bundle(arguments.bundle, os.environ))
    sys.path.insert(0, str(arguments.bundle / SITE))
    head = describe(ROOT, [plugin_library()], arguments.commit) | {"command": _command(arguments)}
    output = arguments.output or ROOT / "benchmarks" / slug(head["gpu"]) / "networks.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    jobs = [
        f"{name}:{precision}:{batch}"
        for name in arguments.network
        for precision in arguments.precision
        for batch in BATCHES.get(name, (1,))
    ]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench-networks-") as folder:
        decisions = json.loads(DECISIONS.read_text(encoding="utf-8"))
        bundle = str(model_folder(arguments.bundle))
        options: dict[str, Any] = {
            "bundle": bundle,
            "ways": arguments.way,
            "decisions": decisions,
            "count": len(jobs),
        }
        options |= {"gate": arguments.gate, "making_s": arguments.making_seconds}
        found = run_jobs(
            "networkbench.job", deque(jobs), len(jobs), arguments.seconds, Path(folder), end, **options
        )
        for job, finding in found:
            if finding.died:
                (Path(folder) / f"{job}.made").touch()
            name, precision, batch = job.split(":")
            row = {"network": name, "precision": precision, "batch": int(batch)}
            row |= {"died": finding.died} if finding.died else finding.found
            rows.append(row)
            rows.sort(key=lambda row: jobs.index(f"{row['network']}:{row['precision']}:{row['batch']}"))
            write_report(output, {"format": FORMAT, **head, "rows": rows}, "--output")
            print(_line(row), flush=True)
    failed = [row for row in rows if "died" in row]
    print(f"{len(rows) - len(failed)} of {len(jobs)} measured on {head['gpu']}; recorded in {output.name}")
    return 1 if failed or len(rows) < len(jobs) else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bundle", type=Path, metavar="DIR", required=True, help="what scripts/gpu_bundle.py unpacked"
    )
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="these only")
    parser.add_argument(
        "--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS), help="these only"
    )
    parser.add_argument("--way", nargs="+", choices=WAYS, default=list(WAYS), help="these only")
    parser.add_argument("--seconds", type=float, default=500.0, help="for all together (default %(default)g)")
    parser.add_argument(
        "--making-seconds",
        type=float,
        default=200.0,
        help="for what is built and compiled (default %(default)g)",
    )
    parser.add_argument("--gate", default="", help="a file: nothing is timed before it is there")
    parser.add_argument("--output", type=Path, help="the record")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    return parser.parse_args(argv)


def _line(row: dict[str, Any]) -> str:
    head = f"{row['network']} {row['precision']} batch {row['batch']}"
    if "died" in row:
        return f"{head}: {row['died']}"
    shown = [
        f"{way} {it['median_ms']:.3f} ms" if "median_ms" in it else f"{way} {it['unavailable']}"
        for way, it in row["rows"].items()
    ]
    return f"{head}: {'; '.join(shown)}"


def _command(arguments: argparse.Namespace) -> str:
    words = ["python3", "scripts/bench_networks.py", "--bundle", "DIR"]
    for name in ("network", "precision", "way"):
        given = getattr(arguments, name)
        if len(given) != len({"network": NETWORKS, "precision": PRECISIONS, "way": WAYS}[name]):
            words += [f"--{name}", *given]
    return shlex.join(words)


if __name__ == "__main__":
    sys.exit(main())
