#!/usr/bin/env python3
"""Converts popular networks on a machine with a GPU, where `trtsmith convert` runs the engines and compares outputs.

    python scripts/popular_networks.py --skeletons FOLDER                      # with the exported files, without a GPU
    python3 scripts/popular_on_gpu.py FOLDER --bundle DIR --seconds 300        # there

Writes benchmarks/<gpu>/popular_networks.json, a row for each network, exporter and precision as soon as it is known.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.processes import Clock  # noqa: E402
from harness.run_record import add_resume, add_seconds, gpu_parser, gpu_record  # noqa: E402
from popularnetworks.gpu_trial import INDEX, PRECISIONS, convert_here  # noqa: E402

LIMIT_S = 240.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = gpu_parser(__doc__)
    parser.add_argument("graphs", type=Path, help="what popular_networks.py --skeletons wrote")
    parser.add_argument("--at-once", type=int, default=8, metavar="N", help="conversions (%(default)s)")
    add_seconds(parser, 300.0)
    add_resume(parser)
    options = parser.parse_args(argv)
    rows = json.loads((options.graphs / INDEX).read_text(encoding="utf-8"))
    jobs = [(row, precision) for row in rows for precision in PRECISIONS]
    record = gpu_record(options, "popular_networks.json", [_key(*job) for job in jobs], job_of=_key_of)
    left = [job for job in jobs if _key(*job) in {*record.left}]
    clock = Clock.of(options.seconds)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:

        def convert(row: dict[str, Any], precision: str) -> None:
            limit = clock.box(LIMIT_S)
            if limit is None:
                return
            key = _key(row, precision)
            found = convert_here(row, options.graphs, precision, limit, Path(folder) / key)
            if limit < LIMIT_S and not found["builds"]:
                return  # the time for all of them was over, which says nothing of this one
            record.add(key, found)
            print(f"{time.strftime('%T')} {key}: {found['verdict']} {found['why'][:80]}", flush=True)

        list(pool.map(lambda job: convert(*job), left))
    print(f"{len(record.rows)} of {len(jobs)} conversions")
    return 0


def _key_of(found: dict[str, Any]) -> str:
    return f"{found['network']}.{found['exporter']} {found['precision']}"


def _key(row: dict[str, Any], precision: str) -> str:
    return f"{row['name']} {precision}"


if __name__ == "__main__":
    sys.exit(main())
