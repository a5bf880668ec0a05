"""The benchmark of the rewrite: its measurements and judgement, on graphs of a few nodes. No clock is tested."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest

import bench_rewrite

CONSTANT_OR = """
<ir_version: 10, opset_import: ["" : 18]>
g (bool[2,3] a) => (bool[2,3] y) <bool c = {1}> { y = Or (a, c) }
"""


def run_of(seconds: float, peak: int, anonymous: int = 1 << 20) -> dict[str, Any]:
    return {
        "nodes": 3,
        "routes": {"native": 3},
        "model_bytes": 10 << 20,
        "seconds": {"load": 0.0, "rewrite": seconds, "plan": 0.0},
        "user_seconds": seconds / 2,
        "peak_growth": peak,
        "anonymous_growth": anonymous,
    }


def test_a_generated_graph_is_sound_and_has_its_custom_nodes() -> None:
    model = bench_rewrite.chain(250)
    onnx.checker.check_model(model)
    assert len(model.graph.node) == 250
    assert [i for i, node in enumerate(model.graph.node) if node.domain] == [99, 199]
    assert model.graph.node[-1].output == [model.graph.output[0].name]


def test_a_plain_chain_has_no_custom_node() -> None:
    plain = bench_rewrite.chain(250, custom=False)
    onnx.checker.check_model(plain, full_check=True)
    assert (len(plain.graph.node), {node.domain for node in plain.graph.node}) == (250, {""})


def test_a_run_reports_stages_routes_and_the_size_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(bench_rewrite.chain(200).SerializeToString())
    (run,) = bench_rewrite.repeat(path, 1)
    assert run["nodes"] == 200
    assert run["routes"] == {"native": 198, "plugin": 2}
    assert run["model_bytes"] == path.stat().st_size
    assert list(run["seconds"]) == ["load", "rewrite", "plan"]
    assert all(value > 0 for value in run["seconds"].values())
    assert run["peak_growth"] >= 0 and run["user_seconds"] > 0


def test_the_flavour_is_the_one_that_is_asked_for(tmp_path: Path) -> None:
    """TensorRT-RTX leaves most of an Or with a constant unwritten, so a rule for it alone takes the node."""
    model = onnx.parser.parse_model(CONSTANT_OR)
    path = tmp_path / "or.onnx"
    path.write_bytes(model.SerializeToString())
    routes = [bench_rewrite.repeat(path, 1, flavour)[0]["routes"] for flavour in ("tensorrt", "tensorrt_rtx")]
    assert routes == [{"native": 1}, {"rewritten": 1}]


def test_a_summary_takes_the_median_of_seconds_and_the_most_of_memory() -> None:
    runs = [run_of(3.0, 1 << 20), run_of(1.0, 12 << 20, 5 << 20), run_of(1.5, 2 << 20)]
    entry = bench_rewrite.summary(runs)
    assert (entry["total_seconds"], entry["slowest_seconds"], entry["runs"]) == (1.5, 3.0, 3)
    assert entry["user_seconds"] == 0.75
    assert (entry["peak_growth_mib"], entry["anonymous_growth_mib"], entry["model_mib"]) == (12.0, 5.0, 10.0)
    assert bench_rewrite.over_model(entry)["peak_growth_over_model"] == 1.2


@pytest.mark.parametrize(
    ("seconds", "over_model", "within"),
    [(1.9, 1.3, True), (2.0, 0.1, False), (0.1, 1.301, False)],
)
def test_the_limits_of_the_detector_are_two_seconds_and_1_3_times_the_model(
    seconds: float, over_model: float, within: bool
) -> None:
    detector = {"total_seconds": seconds, "peak_growth_over_model": over_model}
    assert (not bench_rewrite.over_limits({"detector": detector})) is within


@pytest.mark.parametrize(
    ("kind", "nodes", "seconds", "mib", "told"),
    [
        ("plain", 10_000, 0.6, 60.0, ""),
        (
            "plain",
            10_000,
            0.61,
            1.0,
            "10000 nodes of 'plain' take 0.61 s and 1 MiB, not at most 0.6 s and 60 MiB",
        ),
        ("generated", 10_000, 0.1, 60.1, "10000 nodes of 'generated'"),
        ("generated", 50_000, 99.0, 999.0, ""),
        ("ruled", 55_000, 10.0, 700.0, ""),
        ("ruled", 55_000, 10.1, 1.0, "55000 nodes of 'ruled'"),
        ("ruled_rtx", 55_000, 1.0, 701.0, "55000 nodes of 'ruled_rtx'"),
    ],
)
def test_the_limits_of_chains(kind: str, nodes: int, seconds: float, mib: float, told: str) -> None:
    entry = {"nodes": nodes, "total_seconds": seconds, "peak_growth_mib": mib}
    found = "".join(bench_rewrite.over_limits({kind: [entry]}))
    assert found.startswith(told) and bool(found) == bool(told)


def test_a_check_may_take_a_third_of_a_second() -> None:
    runs = [{"seconds": seconds, "user_seconds": 0.1} for seconds in (0.2, 0.36, 0.3)]
    entry = bench_rewrite.check_summary(runs)
    assert (entry["seconds"], entry["user_seconds"], entry["runs"]) == (0.3, 0.1, 3)
    assert bench_rewrite.over_limits({"check": entry}) == []
    assert bench_rewrite.over_limits({"check": {**entry, "seconds": 0.36}}) != []


def test_a_check_is_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(bench_rewrite.chain(4, custom=False).SerializeToString())
    run = bench_rewrite.run_check(path, tmp_path)
    assert run["seconds"] > 0 and run["user_seconds"] > 0
    path.write_bytes(b"no model")
    with pytest.raises(subprocess.CalledProcessError):
        bench_rewrite.run_check(path, tmp_path)


def test_memory_that_is_used_is_seen() -> None:
    bench_rewrite.reset_peak()
    before = bench_rewrite.status()["VmHWM"]
    block = bytearray(b"\1" * (64 << 20))
    assert bench_rewrite.status()["VmHWM"] - before >= 60 << 20, len(block)


def test_the_record_is_complete_and_exceeding_a_limit_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "rewrite.json"
    runs_of: dict[str, float] = {"tensorrt": 0.5, "tensorrt_rtx": 0.25}
    flavours: list[str] = []

    def repeat(path: Path, runs: int, flavour: str = "tensorrt") -> list[dict[str, Any]]:
        flavours.append(flavour)
        return [run_of(runs_of[flavour], 1 << 20)] * runs

    monkeypatch.setattr(bench_rewrite, "repeat", repeat)
    monkeypatch.setattr(
        bench_rewrite, "run_check", lambda path, bytecode: {"seconds": 0.2, "user_seconds": 0.1}
    )
    arguments = ["--model", "any.onnx", "--runs", "2", "--lengths", "4", "8", "--output", str(record)]
    assert bench_rewrite.main(arguments) == 0
    written = json.loads(record.read_text())
    assert json.loads(capsys.readouterr().out) == written
    assert written["over_limits"] == []
    assert written["detector"]["runs"] == 2
    assert [len(written[kind]) for kind in bench_rewrite.GENERATED] == [2, 2, 2, 2]
    assert written["ruled_rtx"][0]["total_seconds"] == 0.25 and flavours.count("tensorrt_rtx") == 2
    assert written["check"]["seconds"] == 0.2
    assert written["machine"]["cores"] >= 1

    runs_of["tensorrt"] = 2.5
    assert bench_rewrite.main(arguments) == 1
    assert json.loads(record.read_text())["over_limits"]
    assert "the detector takes 2.5 s" in capsys.readouterr().err
    assert bench_rewrite.main([*arguments, "--only", "ruled", "check"]) == 0
    assert json.loads(record.read_text()).keys() & {*bench_rewrite.KINDS} == {"ruled", "check"}


def test_a_model_that_cannot_be_converted_is_not_measured(tmp_path: Path) -> None:
    model = bench_rewrite.chain(4)
    model.graph.node[1].op_type, model.graph.node[1].domain = "Nobody", "nowhere"
    model.opset_import.append(onnx.helper.make_opsetid("nowhere", 1))
    path = tmp_path / "unknown.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(SystemExit, match="not convertible: no importer for operator nowhere::Nobody"):
        bench_rewrite.measure(path)
