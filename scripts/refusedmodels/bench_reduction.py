"""Measure how long it takes to find the nodes for which TensorRT-RTX refuses a large network.

    python scripts/refusedmodels/bench_reduction.py         # writes benchmarks/reduction.json
    python scripts/refusedmodels/bench_reduction.py --nodes 300 --only gathered_int8 --output r.json

Each network is randomly wired, with weights and residuals, and has one fault in its middle (scripts/refusedmodels). It is
built as it is, without any rewrite, so that no rule mends the fault. Every fault is reduced twice: as `convert` does it,
which first looks at the nodes that TensorRT's message names, and by bisection alone, as where a message names none. No GPU
is needed. The exit code is 1 if the model that is left has more than LIMIT_NODES nodes, those in subgraphs among them, or it
took longer than LIMIT_SECONDS.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import onnx  # noqa: E402

from bench_rewrite import machine  # noqa: E402
from refusedmodels.faults import FAULTS  # noqa: E402
from refusedmodels.networks import INPUT, SHAPE, network  # noqa: E402
from trtsmith.converter.engine.build.build import build  # noqa: E402
from trtsmith.converter.engine.build.build_request import BuildRequest, Profile  # noqa: E402
from trtsmith.converter.engine.reduction.reduce import reduce_refusal  # noqa: E402
from trtsmith.converter.graph.walk import all_graphs  # noqa: E402
from trtsmith.converter.model.errors import BuildRefused  # noqa: E402

OUTPUT = ROOT / "benchmarks" / "reduction.json"
NODES = 3_000
JOBS = 2
LIMIT_NODES, LIMIT_SECONDS = 10, 90.0
FLAVOUR = "tensorrt_rtx"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=NODES, help="of each network (default %(default)s)")
    parser.add_argument("--only", nargs="*", choices=FAULTS, default=[*FAULTS], help="faults (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the wiring (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=JOBS, help="builds at a time (default %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: %(default)s")
    asked = parser.parse_args(argv)
    found = []
    for name in asked.only:
        for by_name in (True, False):
            found.append(measure(name, asked.nodes, asked.seed, asked.jobs, by_name=by_name))
            print(json.dumps(found[-1]), flush=True)
    record = {
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": machine(),
        "tensorrt_rtx": metadata.version("tensorrt-rtx"),
        "jobs": asked.jobs,
        "limits": {"nodes": LIMIT_NODES, "seconds": LIMIT_SECONDS},
        "reductions": found,
    }
    asked.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(map(_is_within, found)) else 1


def measure(fault: str, nodes: int, seed: int, jobs: int, *, by_name: bool) -> dict[str, Any]:
    """One reduction. by_name: whether it begins with the nodes that the message names."""
    with tempfile.TemporaryDirectory(prefix="trtsmith-bench-") as folder:
        model = Path(folder) / "network.onnx"
        onnx.save(network(nodes, FAULTS[fault], seed), model)
        profiles = ({INPUT: Profile(SHAPE, SHAPE, SHAPE)},)
        request = BuildRequest(model, Path(folder) / "engine", profiles=profiles, flavour=FLAVOUR)
        since = time.perf_counter()
        try:
            build(request)
        except BuildRefused as error:
            refused_s = time.perf_counter() - since
            since = time.perf_counter()
            reduced = reduce_refusal(
                request, error, flavour=FLAVOUR, limit_s=2 * LIMIT_SECONDS, jobs=jobs, by_name=by_name
            )
            seconds = time.perf_counter() - since
        else:
            raise SystemExit(f"{fault}: TensorRT-RTX builds the network")
    entry: dict[str, Any] = {
        "fault": fault,
        "nodes": len(reduced.subject.table.entries) if reduced else nodes,
        "by_name": by_name,
        "refused_after_s": round(refused_s, 2),
        "seconds": round(seconds, 2),
        "left": None,
        "said": error_text(model, folder, reduced.error) if reduced else "",
    }
    if reduced is not None:
        entries = [reduced.subject.table.entries[number] for number in sorted(reduced.nodes)]
        entry |= {
            "left": sum(len(graph.node) for graph in all_graphs(reduced.model.proto.graph)),
            "left_nodes": [f"{e.node.name} ({e.node.op_type})" for e in entries],
            "trials": reduced.trials,
            "complete": reduced.complete,
        }
    return entry


def error_text(model: Path, folder: str, error: Exception) -> str:
    """TensorRT's words, without this machine's paths."""
    return str(error).split("\n")[0].replace(str(model), model.name).replace(folder + os.sep, "")


def _is_within(entry: dict[str, Any]) -> bool:
    left = entry["left"]
    return left is not None and left <= LIMIT_NODES and entry["seconds"] <= LIMIT_SECONDS


if __name__ == "__main__":
    raise SystemExit(main())
