"""Exports networks of popular libraries, converts them in each precision, and records the results.

    python -m venv .cache/exporters/venv                    # a Python that has the libraries, apart from trtsmith's
    .cache/exporters/venv/bin/pip install --no-deps -r scripts/popularnetworks/requirements.txt
    python scripts/popular_networks.py --python .cache/exporters/venv/bin/python
    python scripts/popular_networks.py --python PYTHON --only rt-detr --exporter dynamo --precision fp16 --again
    python scripts/popular_networks.py --skeletons FOLDER   # for popular_on_gpu.py: files without weights

The networks are tables in scripts/popularnetworks: small sizes, the real structure of blocks, weights drawn from the name
and shape of each. Each is exported by PyTorch's two exporters and by its library's own; `--exporter module` gives trtsmith
the module, in a Python that has trtsmith, too (pip install --no-deps . msgspec onnx-graphsurgeon). `trtsmith convert`
builds an engine for sm86 with TensorRT-RTX, and compares the graph from which it is built with the original in onnxruntime;
no GPU is used.
What the record has is kept, as long as onnx, onnxruntime and TensorRT-RTX are the same: a run that was stopped goes on.
--convert-again keeps of it what trtsmith has no part in, the exports and the builds of TensorRT-RTX alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from freshness.record_rows import BENCHMARKS  # noqa: E402
from harness.run_record import Record, script_parser  # noqa: E402
from popularnetworks.architecture import DYNAMO, LEGACY, MODULE, OWN, Architecture  # noqa: E402
from popularnetworks.gpu_trial import pack_graphs  # noqa: E402
from popularnetworks.network_list import NETWORKS  # noqa: E402
from popularnetworks.network_trial import (  # noqa: E402
    PRECISIONS,
    ExportChild,
    PopularSetup,
    try_architecture,
)

PACKAGES = ("onnx", "onnxruntime", "tensorrt-rtx")


def main(argv: Sequence[str] | None = None, networks: Sequence[Architecture] = NETWORKS) -> int:
    options = _parser().parse_args(argv)
    if options.skeletons is not None:
        rows = popular_record(networks, options.output).rows
        pack_graphs([row for row in rows if not row["export"]], options.folder, options.skeletons)
        return 0
    chosen = [
        (one, exporter)
        for one in networks
        if any(text.lower() in one.name.lower() for text in options.only or [""])
        and (not options.library or one.library in options.library)
        for exporter in one.all_exporters
        if exporter in (options.exporter or (DYNAMO, LEGACY, OWN))
    ]
    if options.list or not chosen:
        for one, exporter in chosen:
            print(f"{one.name}, {exporter}: {one.library}, {one.make}")
        return 0 if chosen else 2
    precisions = list(options.precision or PRECISIONS)
    if "int8" in precisions and not find_spec("modelopt"):
        print("int8 is not tried: nvidia-modelopt, which calibrates, is not installed", file=sys.stderr)
        precisions.remove("int8")
    exports = ExportChild(options.python, options.timeout)
    setup = PopularSetup(exports, options.folder, options.timeout, precisions)
    record = popular_record(networks, options.output)
    for one, exporter in chosen:
        key = job(one.name, exporter)
        before: dict[str, Any] = {} if options.again else next(iter(record.found.get(key, ())), {})
        if options.convert_again:
            before = {name: value for name, value in before.items() if name not in ("met", "precisions")}
        failed = options.convert_again and before.get("export")
        for row in [before] if failed else try_architecture(one, exporter, before, setup):
            record.add(key, row)
            print(f"{key}: {_said(row)}", flush=True)
    exports.close()
    return 0


def job(network: str, exporter: str) -> str:
    return f"{network}, {exporter}"


def popular_record(networks: Sequence[Architecture], file: Path) -> Record:
    """The record's rows by network and exporter, including those in the file, without networks that are gone."""
    head = {"versions": {package: metadata.version(package) for package in PACKAGES}}
    order = [job(one.name, exporter) for one in networks for exporter in one.all_exporters]
    record = Record(file, head, order)
    record.resume(lambda row: job(row["network"], row["exporter"]), "versions")
    return record


def _said(row: dict[str, Any]) -> str:
    found = [f"{name} {one['verdict']} {one['why'][:80]}" for name, one in row.get("precisions", {}).items()]
    return row["export"] or (found[-1] if found else f"exported, {row['nodes']} nodes")


def _parser() -> argparse.ArgumentParser:
    parser = script_parser(__doc__)
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="one that has the libraries")
    parser.add_argument(
        "--output", type=Path, default=BENCHMARKS / "popular_networks.json", help="the record (%(default)s)"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / ".cache" / "popular-networks",
        help="where exported files are kept (%(default)s)",
    )
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="networks whose names contain it; may be repeated"
    )
    parser.add_argument("--library", action="append", help="networks of this library; may be repeated")
    parser.add_argument(
        "--exporter", action="append", choices=(DYNAMO, LEGACY, OWN, MODULE), help="may be repeated"
    )
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="may be repeated")
    parser.add_argument("--again", action="store_true", help="make the chosen rows anew")
    parser.add_argument(
        "--convert-again",
        action="store_true",
        help="convert the chosen rows anew, from files exported before",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="for an export or a conversion (%(default)g)",
    )
    parser.add_argument(
        "--skeletons",
        type=Path,
        metavar="FOLDER",
        help="write the exported files of the record, without weights, for popular_on_gpu.py",
    )
    parser.add_argument("--list", action="store_true", help="say which networks there are, and try none")
    return parser


if __name__ == "__main__":
    sys.exit(main())
