"""Packs exported networks without their weights, and converts them on a machine with a GPU, where the engines run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from popularnetworks.drawn_weights import fill_graph, strip_graph
from popularnetworks.network_export import FILE, SAMPLES
from popularnetworks.network_trial import convert_file, judged

INDEX = "index.json"
PRECISIONS = ("fp32", "fp16")

Row = dict[str, Any]


def pack_graphs(rows: Sequence[Row], folder: Path, target: Path) -> None:
    """Packs the exported files of these rows and their inputs, without data that fill_graph draws.

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
    """The result of `trtsmith convert` with this machine's GPU, which runs the engine. row: of the index."""
    folder.mkdir(parents=True)
    proto = onnx.load(graphs / row["name"] / FILE)
    fill_graph(proto)
    onnx.save(proto, folder / FILE)
    samples = graphs / row["name"] / SAMPLES
    words = ["--inputs", str(samples)]
    report, seconds = convert_file(folder / FILE, row["shapes"], precision, words, limit_s)
    shutil.rmtree(folder)
    head = {key: row[key] for key in ("network", "library", "exporter")}
    return {**head, "precision": precision, **judged(report), "seconds": seconds}
