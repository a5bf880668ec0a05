"""The text of a benchmark's record."""

from __future__ import annotations

from typing import Any

from trtsmith.converter.bench.layers import EngineLayer, LayerNode, profile
from trtsmith.converter.bench.timing import Summary
from trtsmith.converter.cli.reports.engine_times import render, render_layers


def document() -> dict[str, Any]:
    times = Summary.of([1.0, 2.0, 3.0]).to_json()
    run = {
        "point": "opt",
        "shapes": {"images": [2, 3, 8, 8], "k": []},
        "batch": 2,
        "cuda_graph": False,
        "streams": 1,
        "transfers": True,
        "queries": 3,
        "wall_s": 0.006,
        "throughput": 500.0,
        "samples_per_s": 1000.0,
        **{f"{name}_ms": times for name in ("latency", "enqueue", "h2d", "compute", "d2h", "response")},
        "remarks": ["GPU compute time is unstable"],
    }
    baseline = {
        "name": "onnxruntime",
        "response_ms": times,
        "ratio": 4.0,
        "agrees": False,
        "status": "disagree",
        "what": "on the CPU",
    }
    return {
        "gpu": "NVIDIA H200",
        "driver": "580",
        "clocks": {"sm_mhz": 1980.0, "max_sm_mhz": 1980.0, "memory_mhz": 3201.0, "max_memory_mhz": 3201.0},
        "engine": {
            "path": "m.plan",
            "bytes": 3 << 20,
            "flavour": "tensorrt_rtx",
            "version": "1.6.1",
            "device_memory": 1 << 20,
        },
        "runs": [run, {**run, "cuda_graph": True, "unavailable": "the stream cannot be captured"}],
        "layers": profile(
            [{"a": 3.0, "b": 1.0, "c" * 200: 0.0}],
            [],
            {"a": LayerNode("MatrixInverse", True), "b": LayerNode("Relu", False)},
        ),
        "against": [baseline, {"name": "torch", "unavailable": "no PyTorch"}],
    }


def test_all_figures_are_shown() -> None:
    text = render(document(), 2)
    lines = text.splitlines()
    assert "m.plan (3.0 MiB, tensorrt_rtx 1.6.1), device memory 1.0 MiB a context" in text
    assert "SM 1980 of 1980 MHz" in text
    assert "opt: images 2x3x8x8, k scalar; without CUDA graph" in text
    assert "500 inferences/s, 1000 samples/s (batch 2); 3 inferences in 0.006 s" in text
    table = {line.split("  ")[0]: line.split() for line in lines}
    assert table["GPU compute"][2:] == ["1", "2", "2", "2.8", "2.9", "2.98"]
    assert {"latency", "enqueue", "H2D", "D2H", "response"} <= set(table)
    assert "  GPU compute time is unstable" in lines
    assert "not measured: the stream cannot be captured" in text
    assert "75.0%  3   MatrixInverse (plugin)  a" in text and "; 1 more are not shown" in text
    assert "plugins: MatrixInverse 75.0% (1)" in text
    assert "by type: MatrixInverse 75.0% (1), Relu 25.0% (1)" in text
    assert "x4     DISAGREE  on the CPU" in text and "not available: no PyTorch" in text


def test_without_transfers_there_is_no_row_of_them() -> None:
    made = document()
    made["runs"][0]["transfers"] = False
    text = render({**made, "layers": None, "against": [], "clocks": None}, 10)
    assert "H2D" not in text and "no transfers" in text and "clocks unknown" in text and "share" not in text


def test_an_engine_that_tells_nothing_of_its_layers_is_not_said_to_have_no_plugins() -> None:
    times = {"node_myl0_1": 0.25, "__myl_Relu_myl0_5": 0.125}
    shown = render_layers(profile([times], [], {}), 10)
    assert "plugins: none" not in shown and "this engine does not tell" in shown
    known = render_layers(profile([times], [EngineLayer("node_myl0_1", "PluginV3")], {}), 10)
    assert "plugins: plugin 66.7% (1)" in known
