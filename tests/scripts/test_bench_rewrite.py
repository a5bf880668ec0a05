"""The benchmark of the rewrite: what it measures and how it judges, on graphs of a few nodes. No clock is tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import bench_rewrite


def run_of(seconds: float, peak: int, anonymous: int = 1 << 20) -> dict[str, Any]:
    return {
        "nodes": 3,
        "routes": {"native": 3},
        "model_bytes": 10 << 20,
        "seconds": {"load": 0.0, "rewrite": seconds, "plan": 0.0},
        "peak_growth": peak,
        "anonymous_growth": anonymous,
    }


def test_a_generated_graph_is_sound_and_has_its_custom_nodes() -> None:
    model = bench_rewrite.chain(250)
    onnx.checker.check_model(model)
    assert len(model.graph.node) == 250
    assert [i for i, node in enumerate(model.graph.node) if node.domain] == [99, 199]
    assert model.graph.node[-1].output == [model.graph.output[0].name]


def test_a_run_reports_stages_routes_and_the_size_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(bench_rewrite.chain(200).SerializeToString())
    (run,) = bench_rewrite.repeat(path, 1)
    assert run["nodes"] == 200
    assert run["routes"] == {"native": 198, "plugin": 2}
    assert run["model_bytes"] == path.stat().st_size
    assert list(run["seconds"]) == ["load", "rewrite", "plan"]
    assert all(value > 0 for value in run["seconds"].values())
    assert run["peak_growth"] >= 0


def test_a_summary_takes_the_median_of_seconds_and_the_most_of_memory() -> None:
    runs = [run_of(3.0, 1 << 20), run_of(1.0, 12 << 20, 5 << 20), run_of(1.5, 2 << 20)]
    entry = bench_rewrite.summary(runs)
    assert (entry["total_seconds"], entry["slowest_seconds"], entry["runs"]) == (1.5, 3.0, 3)
    assert (entry["peak_growth_mib"], entry["anonymous_growth_mib"], entry["model_mib"]) == (12.0, 5.0, 10.0)
    assert bench_rewrite.over_model(entry)["peak_growth_over_model"] == 1.2


@pytest.mark.parametrize(
    ("seconds", "over_model", "within"),
    [(1.9, 1.3, True), (2.0, 0.1, False), (0.1, 1.301, False)],
)
def test_the_limits_are_two_seconds_and_1_3_times_the_model(
    seconds: float, over_model: float, within: bool
) -> None:
    detector = {"total_seconds": seconds, "peak_growth_over_model": over_model}
    assert bench_rewrite.within_limits(detector) is within


def test_memory_that_is_used_is_seen() -> None:
    bench_rewrite.reset_peak()
    before = bench_rewrite.status()["VmHWM"]
    block = bytearray(b"\1" * (64 << 20))
    assert bench_rewrite.status()["VmHWM"] - before >= 60 << 20, len(block)


def test_the_record_is_complete_and_exceeding_a_limit_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "rewrite.json"
    monkeypatch.setattr(bench_rewrite, "repeat", lambda _path, runs: [run_of(0.5, 1 << 20)] * runs)
    arguments = ["--model", "any.onnx", "--runs", "2", "--lengths", "4", "8", "--output", str(record)]
    assert bench_rewrite.main(arguments) == 0
    written = json.loads(record.read_text())
    assert json.loads(capsys.readouterr().out) == written
    assert written["within_limits"] is True
    assert written["detector"]["runs"] == 2
    assert len(written["generated"]) == 2
    assert written["machine"]["cores"] >= 1

    monkeypatch.setattr(bench_rewrite, "repeat", lambda _path, runs: [run_of(2.5, 1 << 20)] * runs)
    assert bench_rewrite.main(arguments) == 1
    assert json.loads(record.read_text())["within_limits"] is False


def test_a_model_that_cannot_be_converted_is_not_measured(tmp_path: Path) -> None:
    model = bench_rewrite.chain(4)
    model.graph.node[1].op_type, model.graph.node[1].domain = "Nobody", "nowhere"
    model.opset_import.append(onnx.helper.make_opsetid("nowhere", 1))
    path = tmp_path / "unknown.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(SystemExit, match="not convertible: no importer for operator nowhere::Nobody"):
        bench_rewrite.measure(path)
