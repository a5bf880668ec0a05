"""The parent's side: the request to the child, its answer, and the message when it dies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.bench.points import Point
from trtsmith.converter.bench.timed_engine import BenchRequest, Timed, TimingOptions, time_engine
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.runtime import run_in_child as runtime_child
from trtsmith.converter.engine.runtime.exchange import read_arrays, write_arrays
from trtsmith.converter.engine.runtime.run_request import RunRequest

POINTS = (
    Point("min", {"x": np.ones((1, 2), np.float32), "k": np.array([3])}, frozenset({"k"})),
    Point("max", {"x": np.ones((5, 2), np.float32), "k": np.array([9])}, frozenset({"k"})),
)
RUN = RunRequest(Path("m.plan"), flavour="tensorrt_rtx")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the engine in it, on a machine that has a GPU."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.plan").write_bytes(b"an engine")
    monkeypatch.setattr(runtime_child, "find_gpu", lambda: Gpu("pretended", (9, 0)))
    return tmp_path


def test_points_go_to_the_child_and_its_runs_are_of_them(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    def child(module: str, request_json: str, flavour: str, **more: Any) -> dict[str, Any]:
        assert (module, flavour) == ("trtsmith.converter.bench.bench_worker", "tensorrt_rtx")
        request = BenchRequest.from_json(request_json)
        assert request.batches == (1, 5) and request.layers == 4
        assert request.run.engine_path == folder / "m.plan"  # the child works in another folder
        assert [read_arrays(folder)["x"].shape for folder in request.inputs] == [(1, 2), (5, 2)]
        write_arrays(request.outputs, {"y": np.array([7.0])})
        runs = [
            {"number": 1, "cuda_graph": True, "unavailable": "a loop"},
            {"number": 0, "cuda_graph": True, "response_ms": {"median": 3.0}},
            {"number": 0, "cuda_graph": False, "response_ms": {"median": 4.0}},
        ]
        found = {
            "runs": runs,
            "layer_runs": [{"a": 1.0}],
            "inspector": "{}",
            "clocks": None,
            "warnings": ["w"],
        }
        decoded: dict[str, Any] = json.loads(json.dumps(found))
        return decoded

    monkeypatch.setattr(runtime_child, "run_child", child)
    timed = time_engine(RUN, POINTS, TimingOptions(), 4, print)
    assert [(run["point"], run["shapes"]) for run in timed.runs] == [
        ("max", {"x": [5, 2], "k": [9]}),
        ("min", {"x": [1, 2], "k": [3]}),
        ("min", {"x": [1, 2], "k": [3]}),
    ]
    assert timed.outputs["y"].tolist() == [7.0]  # after the folder has gone
    assert timed.plain_run() == timed.runs[2]  # without CUDA graph


def test_nothing_measured_is_no_run() -> None:
    runs = ({"cuda_graph": True, "unavailable": "a loop"},)
    assert Timed(runs, {}, (), "", None, ()).plain_run() is None


@pytest.mark.parametrize("timed_out", [True, False])
def test_a_child_that_dies_is_a_message(monkeypatch: pytest.MonkeyPatch, timed_out: bool) -> None:
    def child(*arguments: Any, **more: Any) -> dict[str, Any]:
        raise ChildDied("died of SIGSEGV", "timing inputs 1 of 1", "its last words", timed_out=timed_out)

    monkeypatch.setattr(runtime_child, "run_child", child)
    with pytest.raises(UsageError) as caught:
        time_engine(RUN, POINTS, TimingOptions(), 0, print)
    (problem,) = caught.value.problems
    assert "died of SIGSEGV while timing inputs 1 of 1" in problem.what and "its last words" in problem.what
    assert ("--timeout" in problem.fix) == timed_out
