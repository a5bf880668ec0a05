"""The child's side of a benchmark on a fake GPU with known delays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converter.bench.fakes import FakeDevice, FakeRunner
from trtsmith.converter.bench.bench_worker import SessionLane, measure
from trtsmith.converter.bench.timed_engine import BenchRequest, TimingOptions
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.rewrite.types import IoType

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def run(
    tmp_path: Path,
    runner: FakeRunner,
    inputs: Sequence[np.ndarray] = (X,),
    progress: Callable[[str], None] = lambda step: None,
    layers: int = 0,
    io_types: tuple[IoType, ...] = (),
    **timing: Any,
) -> dict[str, Any]:
    """The figures of an engine at these inputs, of batches of 2, 3, ..."""
    folders = [tmp_path / f"in{number}" for number in range(len(inputs))]
    for folder, x in zip(folders, inputs, strict=True):
        write_arrays(folder, {"x": x})
    request = BenchRequest(
        RunRequest(Path("m.plan"), flavour="tensorrt_rtx", io_types=io_types),
        TimingOptions(**{"warmup_s": 0.1, "duration_s": 1.0, **timing}),
        tuple(folders),
        tuple(range(2, 2 + len(inputs))),
        tmp_path / "out",
        layers,
    )
    assert BenchRequest.from_json(request.to_json()) == request
    looked = {"sm_mhz": 1980.0}
    return measure(request, runner.device, runner, progress, runner.device.clock, lambda: looked)  # type: ignore[arg-type]


QUICK: dict[str, Any] = {"warmup_s": 0.0, "duration_s": 0.0, "iterations": 3, "graphs": (False,)}


def test_figures_are_the_delays(tmp_path: Path) -> None:
    device = FakeDevice(copy_s=1e-4)  # 24 bytes each way: 2.4 ms
    found = run(tmp_path, FakeRunner(device))
    off, on = found["runs"]
    assert (off["cuda_graph"], on["cuda_graph"]) == (False, True)
    for figures, compute in ((off, 10.0), (on, 8.0)):
        assert figures["h2d_ms"]["median"] == figures["d2h_ms"]["median"] == pytest.approx(2.4)
        assert figures["compute_ms"]["p99"] == pytest.approx(compute)
        assert figures["latency_ms"]["mean"] == pytest.approx(compute + 4.8)
        assert figures["throughput"] == pytest.approx(1e3 / (compute + 4.8), rel=0.02)
        assert figures["samples_per_s"] == pytest.approx(2 * figures["throughput"], rel=1e-4)
        assert figures["response_ms"]["median"] == pytest.approx(compute + 4.8)
    assert found["clocks"] == {"sm_mhz": 1980.0}
    assert found["layer_runs"] == [] and found["warnings"] == []
    assert np.array_equal(read_arrays(tmp_path / "out")["y"], 2 * X)


def test_without_transfers_nothing_is_copied(tmp_path: Path) -> None:
    device = FakeDevice(copy_s=1.0)
    (figures,) = run(tmp_path, FakeRunner(device), transfers=False, graphs=(False,))["runs"]
    assert figures["latency_ms"]["max"] == pytest.approx(10.0)
    assert figures["h2d_ms"]["max"] == figures["d2h_ms"]["max"] == 0.0
    assert figures["throughput"] == pytest.approx(100, rel=0.02)


def test_the_hosts_time_is_enqueue_time(tmp_path: Path) -> None:
    device = FakeDevice(host_s=0.003)
    (figures,) = run(tmp_path, FakeRunner(device), graphs=(False,))["runs"]
    assert figures["enqueue_ms"]["median"] == pytest.approx(9.0)  # two copies and the engine


def test_a_graph_that_cannot_be_captured_is_said_and_the_rest_is_measured(tmp_path: Path) -> None:
    device = FakeDevice()
    off, on = run(tmp_path, FakeRunner(device, no_graph="a loop"))["runs"]
    assert "unavailable" not in off
    assert on["unavailable"] == "no CUDA graph is used: a loop" and "throughput" not in on


def test_a_graph_that_cannot_be_captured_at_one_shape_is_measured_at_another(tmp_path: Path) -> None:
    runner = FakeRunner(FakeDevice(), no_graph="a loop")

    def announce(step: str) -> None:
        runner.no_graph = "a loop" if "1 of 2" in step else ""

    first, second = run(tmp_path, runner, (X, X), announce, **QUICK | {"graphs": (True,)})["runs"]
    assert "unavailable" in first and "unavailable" not in second


def test_the_number_of_streams_and_of_inferences(tmp_path: Path) -> None:
    device = FakeDevice()
    (figures,) = run(tmp_path, FakeRunner(device), **QUICK | {"streams": 3, "iterations": 41})["runs"]
    assert figures["streams"] == 3 and figures["queries"] == 41


def test_layers_are_summed_where_they_are_reported_twice(tmp_path: Path) -> None:
    device = FakeDevice()
    found = run(tmp_path, FakeRunner(device), layers=4)
    assert found["layer_runs"] == [{"a": 1.5, "b": 2.0}] * 4
    assert found["inspector"] == '{"Layers": ["a", "b"]}'


def test_the_warm_up_takes_its_time_and_is_not_counted(tmp_path: Path) -> None:
    device = FakeDevice()
    (figures,) = run(tmp_path, FakeRunner(device), **QUICK | {"warmup_s": 5.0})["runs"]
    assert device.now > 5.0 and figures["queries"] == 3 and figures["wall_s"] < 0.1


def test_layers_and_outputs_are_those_of_the_first_inputs(tmp_path: Path) -> None:
    announced: list[str] = []
    found = run(tmp_path, FakeRunner(FakeDevice()), (X, X + 50), announced.append, 2, **QUICK)
    assert announced == ["timing inputs 1 of 2", "profiling layers", "timing inputs 2 of 2"]
    assert [(run["number"], run["batch"]) for run in found["runs"]] == [(0, 2), (1, 3)]
    assert np.array_equal(read_arrays(tmp_path / "out")["y"], 2 * X)


def test_types_of_the_model_are_undone_and_done(tmp_path: Path) -> None:
    types = tuple(IoType(name, "float64", "float32") for name in "xy")
    wide = X.astype(np.float64) + 1e-12  # which float32 does not hold
    run(tmp_path, FakeRunner(FakeDevice()), (wide,), io_types=types, **QUICK)
    found = read_arrays(tmp_path / "out")["y"]
    assert found.dtype == np.float64 and np.array_equal(found, 2 * X)


def test_values_that_decide_shapes_stay_on_the_host() -> None:
    device = FakeDevice()
    session = FakeRunner(device).session(profile=0, cuda_graph=False)
    feeds = {"x": X, "sizes": np.array([2, 3])}
    lane = SessionLane(device, session, feeds, frozenset({"sizes"}), transfers=True)  # type: ignore[arg-type]
    assert session.fed["sizes"] is feeds["sizes"] and session.fed["x"].numpy().tolist() == X.tolist()
    session.fed["x"].array[...] = 0
    lane.submit(0)
    assert session.fed["x"].numpy().tolist() == X.tolist()  # copied in again, from pinned memory
    lane.wait(0)
