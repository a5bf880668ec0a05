"""Packs exported networks without their weights, and converts them on a machine with a GPU, where the engines run."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from harness.processes import run_boxed
from popularnetworks.drawn_weights import fill_graph, strip_graph
from popularnetworks.network_export import FILE, SAMPLES
from popularnetworks.network_trial import judged

SCRIPTS = Path(__file__).resolve().parents[1]
INDEX = "index.json"
PRECISIONS = ("fp32", "fp16")

Row = dict[str, Any]


def pack_graphs(rows: Sequence[Row], folder: Path, target: Path) -> None:
    """The exported files of these rows of the record, without what fill_graph draws, and their inputs.

    folder: where scripts/popular_networks.py keeps them. Rows without a file there are left out.
    """
    kept = []
    for row in rows:
        name = f"{row['network']}.{row['exporter']}"
        if not (folder / name / FILE).is_file():
            continue
        proto = onnx.load(folder / name / FILE)
        strip_graph(proto)
        (target / name).mkdir(parents=True)
        onnx.save(proto, target / name / FILE)
        shutil.copy(folder / name / SAMPLES, target / name / SAMPLES)
        kept.append({key: row[key] for key in ("network", "library", "exporter", "shapes")} | {"name": name})
    (target / INDEX).write_text(json.dumps(kept), encoding="utf-8")


def convert_here(row: Row, graphs: Path, precision: str, limit_s: float, folder: Path) -> Row:
    """What `trtsmith convert` says with this machine's GPU, where it runs the engine. row: of the index."""
    folder.mkdir(parents=True)
    proto = onnx.load(graphs / row["name"] / FILE)
    fill_graph(proto)
    onnx.save(proto, folder / FILE)
    report = folder / "report.json"
    command = [sys.executable, "-m", "trtsmith", "convert", folder / FILE, "-o", folder / "model.plan"]
    command += ["--precision", precision, "--report", report, "--quiet", "--no-reduce"]
    command += ["--inputs", graphs / row["name"] / SAMPLES]
    command += [word for shape in row["shapes"] for word in ("--shapes", shape)]
    done = run_boxed(list(map(str, command)), limit_s, SCRIPTS.parent)
    said = (
        json.loads(report.read_text(encoding="utf-8"))
        if report.is_file()
        else {"problems": [{"what": done.problem or "no report"}]}
    )
    shutil.rmtree(folder)
    head = {key: row[key] for key in ("network", "library", "exporter")}
    return {**head, "precision": precision, **judged(said), "seconds": round(done.seconds, 1)}
