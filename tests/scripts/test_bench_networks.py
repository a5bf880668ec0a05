"""The timed engines come from the graphs that their ways name, and the record becomes a table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest

pytest.importorskip("torch")

from docpages import network_times
from networkbench.graphs import WAYS, rewritten
from realnetworks import job
from tests.exports import exported

RECORD: dict[str, Any] = {
    "gpu": "a GPU",
    "commit": "a",
    "driver": "1.2",
    "packages": {"torch": "2", "tensorrt-rtx-cu13": "1"},
    "rows": [
        {
            "network": "net",
            "precision": "fp16",
            "batch": 2,
            "rows": {
                "plugins": {
                    "median_ms": 2.0,
                    "errors": {"a": 1e-3, "b": 2e-3},
                    "device_memory": 2**21,
                    "layers": {"by_type": [{"type": "Conv", "layers": 3, "ms": 1.5, "share": 0.75}]},
                },
                "plugins, softmax apart": {"median_ms": 2.2},
                "native": {"median_ms": 5.0, "device_memory": 2**22},
                "eager": {"median_ms": 9.0, "errors": {"a": 3e-3}},
                "compile, CUDA graphs": {"unavailable": "RuntimeError: no"},
            },
        },
        {"network": "other", "precision": "fp32", "batch": 1, "died": "crashes: SIGSEGV"},
    ],
}


def test_ways_differ_in_what_is_a_plugin(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = exported("dino_decoder", tmp_path_factory).model
    graphs = {way: rewritten(path, way).model.proto.graph for way in WAYS if way != "GridSample"}
    found = {
        way: Counter(node.op_type for node in graph.node if node.domain == "trtsmith")
        for way, graph in graphs.items()
    }
    assert list(found["plugins"].values()) == list(found["plugins, softmax apart"].values()) == [2]
    assert found["plugins"] != found["plugins, softmax apart"]
    assert not found["native"]


def test_the_best_of_the_others_is_compared() -> None:
    text = network_times.render([RECORD])
    row = next(line for line in text.splitlines() if line.startswith("| net "))
    assert "5.000: 2.50 times ours" in row, "our own other engine is no rival"
    assert "2.0e-03 / 3.0e-03" in row
    assert "2 MiB / 4 MiB" in row
    assert "| none |" in row
    assert "| other " not in text


def test_layers_of_float16() -> None:
    assert "| net, batch 2 | Conv | 3 | 1.500 | 75 % |" in network_times.render_layers([RECORD])


def test_networks_of_real_size_in_a_table() -> None:
    ways = {
        "import half": {"unavailable": "UsageError: no"},
        "compile half": {"median_ms": 1.5, "error": 1e-3},
        "fp16": {"median_ms": 0.75, "error": 2e-3},
    }
    rows = [{"network": "net", "rows": ways}, {"network": "other", "died": "not done: no time was left"}]
    page = network_times.render_real_sizes({**RECORD, "rows": rows})
    assert "| net | none | 1,500 / 1.0e-03 | 750 / 2.0e-03 |" in page
    assert page.endswith("Not measured in this run, whose time was over: other.")


def test_a_reason_that_is_none_keeps_nothing_in_float32(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[4,8] x) => (float[4,8] y)
        <float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
        a = LayerNormalization (x, w) b = Exp (a) y = Mul (b, w) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    reports = [job.written(tmp_path / "model.onnx", way).precision for way in (job.REWRITTEN, *job.ISLANDS)]
    kept = [tuple(one.op_type for one in report.kept) for report in reports if report is not None]
    assert kept[0] == ("LayerNormalization", "Exp") and ("Exp",) in kept and ("LayerNormalization",) in kept
