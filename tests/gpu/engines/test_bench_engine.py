"""`trtsmith bench` on a real GPU, with an engine without plugins, which every TensorRT and GPU can run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trtsmith.converter.cli.main import main
from trtsmith.converter.engine.builder.flavour import installed_flavours, load_flavour

pytestmark = pytest.mark.gpu

WIDTH = 512


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = relu(x @ a) @ b, a batch of 64."""
    pytest.importorskip("torch")
    if not installed_flavours():
        pytest.skip("no TensorRT")
    from trtsmith.converter.bench.expansion_engine import NoEngineError, build_here

    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array((rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32), name)
        for name in "ab"
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "rectify"),
        helper.make_node("MatMul", ["r", "b"], ["y"], "second"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, WIDTH]) for name in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    onnx.checker.check_model(model)
    flavour = load_flavour()
    target = "CURRENT" if flavour.is_rtx else ""
    try:
        plan = build_here(flavour, model.SerializeToString(), target)
    except NoEngineError:
        plan = build_here(flavour, model.SerializeToString(), "")
    path = tmp_path_factory.mktemp("engine") / "m.plan"
    path.write_bytes(plan)
    return path


def bench(engine: Path, folder: Path, *words: str) -> dict[str, Any]:
    record = folder / "record.json"
    quick = ("--warmup-ms", "50", "--duration-s", "0.3", "--json", str(record))
    assert main(["bench", str(engine), *quick, *words]) == 0
    found: dict[str, Any] = json.loads(record.read_text())
    return found


def test_figures_hang_together(engine: Path, tmp_path: Path) -> None:
    document = bench(engine, tmp_path)
    off, on = document["runs"]
    assert "unavailable" not in off and (off["cuda_graph"], on["cuda_graph"]) == (False, True)
    assert "unavailable" in on or on["compute_ms"]["median"] > 0
    for name in ("h2d", "compute", "d2h"):
        assert 0 < off[f"{name}_ms"]["min"] <= off[f"{name}_ms"]["median"] <= off[f"{name}_ms"]["p99"]
    assert off["latency_ms"]["min"] >= off["compute_ms"]["min"]
    assert off["response_ms"]["median"] >= off["compute_ms"]["min"]
    assert off["throughput"] <= 1100 / off["compute_ms"]["min"]  # one stream: no two inferences at once
    assert off["batch"] == 64 and off["samples_per_s"] == pytest.approx(64 * off["throughput"], rel=1e-4)
    (output,) = document["outputs"]
    assert output["nan"] == 0 and output["shape"] == [64, WIDTH]
    assert document["clocks"] is None or document["clocks"]["sm_mhz"] > 0


def test_layers_are_profiled(engine: Path, tmp_path: Path) -> None:
    layers = bench(engine, tmp_path, "--cuda-graph", "off")["layers"]
    assert layers is not None and layers["sum_ms"] > 0
    assert sum(row["share"] for row in layers["layers"]) == pytest.approx(1.0, abs=1e-3)


def test_streams_and_no_transfers(engine: Path, tmp_path: Path) -> None:
    words = ("--streams", "2", "--no-transfers", "--cuda-graph", "off", "--layers", "0")
    document = bench(engine, tmp_path, *words)
    (run,) = document["runs"]
    assert run["streams"] == 2 and run["h2d_ms"]["max"] == 0 and document["layers"] is None
    assert run["compute_ms"]["median"] > 0
