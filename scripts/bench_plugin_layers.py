"""Times engines that hold one plugin between two elementwise layers, beside the kernel alone, and each layer.

    python3 scripts/bench_plugin_layers.py --bundle DIR    # writes benchmarks/<gpu>/plugin_layers.json

The sizes are those of the definitions' benchmarks. Engine and kernel read the same inputs again and again, so that both
find in the second-level cache what fits there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from gpubundle.unpack import SITE, with_bundle  # noqa: E402
from onnxcoverage.jobs import run_jobs  # noqa: E402
from trtsmith.converter.engine.libraries import plugin_library  # noqa: E402
from trtsmith.converter.model.output_file import write_report  # noqa: E402
from trtsmith.converter.plugin.machine import describe, slug  # noqa: E402
from trtsmith.importers.registry import OPS  # noqa: E402

FORMAT = 1
DTYPES = ("float32", "float16", "bfloat16")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bundle", type=Path, metavar="DIR", required=True, help="what gpu_bundle.py unpacked"
    )
    parser.add_argument(
        "--op", nargs="+", default=[op.name for op in OPS if op.benchmarks], help="these only"
    )
    parser.add_argument(
        "--dtype", nargs="+", choices=DTYPES, default=["float32", "float16"], help="these only"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="for all together (default %(default)g)")
    parser.add_argument("--output", type=Path, help="the record")
    parser.add_argument("--commit", help="the commit, where the checkout has no .git folder")
    arguments = parser.parse_args(argv)
    os.environ.update(with_bundle(arguments.bundle, os.environ))
    sys.path.insert(0, str(arguments.bundle / SITE))
    head = describe(ROOT, [plugin_library()], arguments.commit)
    output = arguments.output or ROOT / "benchmarks" / slug(head["gpu"]) / "plugin_layers.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    jobs = [
        f"{op.name}:{case.name}:{dtype}"
        for op in OPS
        if op.name in arguments.op
        for case in op.benchmarks
        for dtype in arguments.dtype
    ]
    rows: list[dict[str, Any]] = []
    end = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory(prefix="plugin-layers-") as folder:
        # One at a time is timed: more workers would disturb it.
        for job, finding in run_jobs("networkbench.one_plugin", deque(jobs), 1, 60.0, Path(folder), end):
            op, case, dtype = job.split(":")
            row = {"op": op, "case": case, "dtype": dtype} | (finding.found or {"died": finding.died})
            rows.append(row)
            write_report(output, {"format": FORMAT, **head, "rows": rows}, "--output")
            print(job, row.get("died") or {k: v for k, v in row.items() if k.endswith("_us")}, flush=True)
    failed = [row for row in rows if "died" in row]
    print(f"{len(rows) - len(failed)} of {len(jobs)} measured on {head['gpu']}; recorded in {output.name}")
    return 1 if failed or len(rows) < len(jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
