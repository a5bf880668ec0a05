"""Decides as `convert` does which nodes of a network stay in float32 at fp16; on a CPU, in minutes.

    python scripts/networkbench/decisions.py         # writes benchmarks/networks_float16.json

The GPU's time is not for that: bench_networks.py reads the record.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from harness.names_met import names_met  # noqa: E402
from harness.run_record import write_record  # noqa: E402
from models import MODELS  # noqa: E402
from models.export import export_model  # noqa: E402
from networkbench.graphs import GRID_SAMPLE, NETWORKS, WAYS, rewritten  # noqa: E402
from trtsmith.converter.base.output_file import write_report  # noqa: E402
from trtsmith.converter.convert.plan import plan  # noqa: E402
from trtsmith.converter.convert.precision import in_precision  # noqa: E402
from trtsmith.converter.convert.precision_request import PrecisionRequest  # noqa: E402
from trtsmith.converter.convert.reports import graph_report  # noqa: E402

UNTRIED = ("bevformer_layer", "sparse4d_head")
"""Networks whose float16 sums are not tried: a run on a CPU takes more than 20 GB, or many minutes."""

RECORD = ROOT / "benchmarks" / "networks_float16.json"


def main(names: Sequence[str]) -> int:
    rows: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if names else {}
    for name in names or NETWORKS:
        rows[name] = decisions(name)
        (write_report if names else write_record)(RECORD, rows, "RECORD")
        print(name, {way: len(row["kept"]) for way, row in rows[name].items()}, flush=True)
    return 0


def decisions(name: str) -> dict[str, Any]:
    """By way with an engine: `kept`, the float32 nodes with reasons; `sums`, the observations on float16 sums; `met`, the
    names of rules and custom operators.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = export_model(name, Path(folder), batch=1).model
        inputs = {key: tensor.numpy() for key, tensor in MODELS[name].make(batch=1)[1].items()}
        feeds = None if name in UNTRIED else inputs
        chain = None
        if name + GRID_SAMPLE in MODELS:
            chain = export_model(name + GRID_SAMPLE, Path(folder), batch=1).model
        for way in WAYS:
            model = chain if way == "GridSample" else path
            if model is not None:
                found[way] = _decided(model, feeds, way)
    return found


def _decided(path: Path, feeds: Mapping[str, Any] | None, way: str) -> dict[str, Any]:
    request = PrecisionRequest("fp16", accumulate="fp16" if feeds is None else "")
    result = in_precision(rewritten(path, way), request, feeds)
    report = result.precision
    assert report is not None
    return {
        "kept": {kept.node: kept.reason for kept in report.kept},
        "sums": report.to_json().get("sums"),
        "met": names_met(graph_report(plan(result), result)),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
