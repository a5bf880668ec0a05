"""Popular networks on a GPU: graphs travel without weights and are restored; convert's result is recorded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import popular_on_gpu
from harness.processes import Ended
from popularnetworks import gpu_trial, network_trial
from popularnetworks.drawn_weights import fill_graph, mark_weights
from popularnetworks.network_export import FILE, SAMPLES

ROW = {"network": "Net", "library": "lib", "exporter": "dynamo", "shapes": ["x=1x64:2x64:4x64"]}


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    """A packed network, of which the folder has a file; another has none."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2,64] x) => (float[2,32] y) { y = MatMul(x, w) }'
    proto = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    mark_weights(proto)
    fill_graph(proto)
    (tmp_path / "exported" / "Net.dynamo").mkdir(parents=True)
    onnx.save(proto, tmp_path / "exported" / "Net.dynamo" / FILE)
    np.savez(tmp_path / "exported" / "Net.dynamo" / SAMPLES, x=np.ones((2, 64), np.float32))
    gpu_trial.pack_graphs([ROW, {**ROW, "network": "Gone"}], tmp_path / "exported", tmp_path / "packed")
    return tmp_path / "packed"


def test_graphs_travel_without_weights_and_are_filled(
    graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def run_boxed(command: list[str], limit_s: float, folder: Path) -> Ended:
        seen.append(command)
        model = Path(command[command.index("convert") + 1])
        assert model.read_bytes() == (tmp_path / "exported" / "Net.dynamo" / FILE).read_bytes()
        verdict = {"status": "agree", "comparisons": [{"relative": 1e-4}]}
        report = {"engine": "model.plan", "verdict": verdict}
        Path(command[command.index("--report") + 1]).write_text(json.dumps(report))
        return Ended(0, "", 1.25, None)

    monkeypatch.setattr(network_trial, "run_boxed", run_boxed)
    assert (graphs / "Net.dynamo" / FILE).stat().st_size < 1000
    (row,) = json.loads((graphs / gpu_trial.INDEX).read_text())
    found = gpu_trial.convert_here(row, graphs, "fp16", 10.0, tmp_path / "work")
    assert found["precision"] == "fp16" and found["verdict"] == "agree" and found["relative"] == 1e-4
    assert {"--shapes", "x=1x64:2x64:4x64", "--inputs", "fp16"} <= set(seen[0])


def test_a_conversion_without_a_report_says_why(
    graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        network_trial, "run_boxed", lambda *_: Ended(None, "", 10.0, "took longer than 10 s and was ended")
    )
    (row,) = json.loads((graphs / gpu_trial.INDEX).read_text())
    found = gpu_trial.convert_here(row, graphs, "fp32", 10.0, tmp_path / "work")
    assert not found["builds"] and found["why"] == "took longer than 10 s and was ended"


def test_rows_are_recorded_by_network_and_precision(
    graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert_here(row: dict[str, Any], graphs: Path, precision: str, limit_s: float, folder: Path) -> Any:
        return {"network": row["network"], "precision": precision, "verdict": "agree", "why": ""}

    monkeypatch.setattr(popular_on_gpu, "convert_here", convert_here)
    monkeypatch.setattr("harness.run_record.describe", lambda *_: {"gpu": "NVIDIA H200"})
    monkeypatch.setattr("harness.run_record.plugin_library", lambda: Path("lib.so"))
    output = tmp_path / "out.json"
    assert popular_on_gpu.main([str(graphs), "--output", str(output)]) == 0
    record = json.loads(output.read_text())
    assert record["gpu"] == "NVIDIA H200"
    assert [row["precision"] for row in record["rows"]] == ["fp32", "fp16"]
