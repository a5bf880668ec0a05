"""The baselines of an engine on the CPU: onnxruntime, and the user's PyTorch code."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.converter.models import written
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.base.user_function import load_user_function
from trtsmith.converter.bench import against, baseline_worker
from trtsmith.converter.bench.against import ExpectedOutputs, check_baselines, judge_of, time_baseline
from trtsmith.converter.bench.baseline_worker import (
    BaselineRequest,
    TimedBaseline,
    onnxruntime_baseline,
    repeat,
    torch_baseline,
)
from trtsmith.converter.bench.timed_engine import TimingOptions
from trtsmith.converter.engine.child.events import Events
from trtsmith.converter.engine.child.process import ChildDied
from trtsmith.converter.engine.runtime.exchange import write_arrays
from trtsmith.converter.model.load import load_model
from trtsmith.importers.problem import Problem

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
QUICK = TimingOptions(warmup_s=0.0, duration_s=0.0, iterations=3, graphs=(False,))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = inverse of (x @ x^T + 3 I), by a custom operator that onnxruntime has not."""
    text = """(float[3,4] x) => (float[3,3] y) {
        t = Transpose (x) p = MatMul (x, t) s = Add (p, eye) y = trt.plugins.Inverse (s) }"""
    return written(tmp_path / "model.onnx", text, {"eye": 3 * np.eye(3, dtype=np.float32)})


UNKNOWN = "(float[3,4] x) => (float[3,4] y) { y = nobody.NobodyKnowsThis (x) }"
RIGHT = np.linalg.inv(X.astype(np.float64) @ X.T.astype(np.float64) + 3 * np.eye(3))

USERS = """
import torch
def make(inputs):
    x = inputs["x"]
    return lambda: torch.linalg.inv(x @ x.T + 3 * torch.eye(3, device=x.device))
def wrong(inputs):
    return lambda: (torch.full((3, 3), 7.0),)
number = 3
"""


@pytest.fixture
def users(tmp_path: Path) -> Path:
    (tmp_path / "users_code_for_bench.py").write_text(USERS)
    return tmp_path


@pytest.mark.parametrize("transfers", [True, False])
def test_onnxruntime_computes_the_model_with_custom_operators_expanded(model: Path, transfers: bool) -> None:
    feeds = {"x": X, "of the original alone": X}
    baseline = onnxruntime_baseline(model, feeds, transfers=transfers)
    baseline.call()
    assert np.allclose(baseline.fetch()["y"], RIGHT, rtol=1e-4)
    if "CUDA" not in baseline.what:
        assert "on the CPU, no GPU used" in baseline.what


@pytest.mark.parametrize("transfers", [True, False])
def test_torch_computes_what_the_users_function_makes(
    users: Path, monkeypatch: pytest.MonkeyPatch, transfers: bool
) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(users)
    baseline = torch_baseline("users_code_for_bench:make", {"x": X}, ["y"], transfers=transfers)
    baseline.call()
    assert np.allclose(baseline.fetch()["y"], RIGHT, rtol=1e-4)


def test_torch_takes_and_gives_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (tmp_path / "doubles_for_bench.py").write_text("def make(i):\n    return lambda: i['x'] * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    x = np.array([1.5, -3.0], ml_dtypes.bfloat16)
    baseline = torch_baseline("doubles_for_bench:make", {"x": x}, ["y"], transfers=True)
    baseline.call()
    found = baseline.fetch()["y"]
    assert found.dtype == ml_dtypes.bfloat16 and found.tolist() == [3.0, -6.0]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nothing", "names no function"),
        ("users_code_for_bench:", "names no function"),
        ("users_code_for_bench:absent", "is not a function of"),
        ("no_such_module_here:make", "cannot be loaded"),
        ("users_code_for_bench:number", "is not a function"),
    ],
)
def test_functions_that_are_none(users: Path, monkeypatch: pytest.MonkeyPatch, spec: str, says: str) -> None:
    monkeypatch.syspath_prepend(users)
    with pytest.raises(UsageError, match=says):
        load_user_function(spec, "--torch")


def request(name: str, model: Path, tmp_path: Path, **more: object) -> BaselineRequest:
    write_arrays(tmp_path / "in", {"x": X})
    return BaselineRequest(name, model, tmp_path / "in", tmp_path / "out", ("y",), QUICK, **more)  # type: ignore[arg-type]


def test_a_baseline_in_a_process_of_its_own_and_the_verdict_on_its_numbers(
    model: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    asked = request("onnxruntime", model, tmp_path)
    judge = judge_of(load_model(model), {"x": X}, print)
    row = time_baseline(asked, 2.0, {"y": RIGHT.astype(np.float32)}, judge, tmp_path, told.append)
    assert row["agrees"] and row["outputs"][0]["relative"] < 1e-4
    assert row["response_ms"]["count"] == 3
    assert row["ratio"] == pytest.approx(row["response_ms"]["median"] / 2.0, rel=1e-4)
    assert told == ["starting onnxruntime", "timing onnxruntime"]
    assert BaselineRequest.from_json(asked.to_json()) == asked


def test_numbers_that_disagree_are_said_to(model: Path, users: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    asked = request("torch", model, tmp_path, torch="users_code_for_bench:wrong", path=(str(users),))
    judge = judge_of(load_model(model), {"x": X}, print)
    row = time_baseline(asked, 1.0, {"y": RIGHT.astype(np.float32)}, judge, tmp_path, print)
    assert not row["agrees"] and "relative error" in row["outputs"][0]["reason"]


def test_a_mistake_of_the_users_ends_the_command_and_a_death_is_a_finding(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endings: list[Exception] = [
        UsageError(Problem("no such function", "--torch a:b", "one", "correct it")),
        ChildDied("died of SIGSEGV", "timing torch", "", timed_out=False),
    ]

    def child(*arguments: object, **more: object) -> None:
        raise endings.pop(0)

    monkeypatch.setattr(against, "run_child", child)
    asked = request("torch", model, tmp_path)
    with pytest.raises(UsageError, match="no such function"):
        time_baseline(asked, 1.0, {}, ExpectedOutputs(), tmp_path, print)
    assert time_baseline(asked, 1.0, {}, ExpectedOutputs(), tmp_path, print) == {
        "name": "torch",
        "unavailable": "its process died of SIGSEGV while timing torch",
    }


def test_the_warm_up_is_not_counted(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    baseline = TimedBaseline("onnxruntime", "made up", lambda: calls.append(1), lambda: {"y": X})
    monkeypatch.setattr(baseline_worker, "onnxruntime_baseline", lambda *_, **more: baseline)
    read_end, write_end = os.pipe()
    found = baseline_worker.work(
        request("onnxruntime", model, tmp_path).to_text(), Events(write_end), tmp_path / "log"
    )
    os.close(read_end)
    os.close(write_end)
    assert found["response_ms"]["count"] == 3 and len(calls) == 2 + 3


def test_a_model_that_onnxruntime_does_not_run_is_a_finding(tmp_path: Path) -> None:
    path = written(tmp_path / "unknown.onnx", UNKNOWN)
    row = time_baseline(request("onnxruntime", path, tmp_path), 1.0, {}, ExpectedOutputs(), tmp_path, print)
    assert set(row) == {"name", "unavailable"} and "NobodyKnowsThis" in row["unavailable"]


@pytest.mark.parametrize(
    ("names", "torch", "has_model", "says"),
    [
        (["tensorflow"], "", True, "no baseline 'tensorflow'"),
        (["onnxruntime"], "", False, "baselines need the model"),
        (["torch"], "", True, "which PyTorch code"),
        ([], "m:f", True, "PyTorch is not a baseline"),
    ],
)
def test_baselines_that_cannot_be(names: list[str], torch: str, has_model: bool, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_baselines(names, torch, has_model=has_model)
    check_baselines(["onnxruntime", "torch"], "m:f", has_model=True)
    check_baselines([], "", has_model=False)


def test_calls_are_repeated_for_the_time_and_the_number_that_are_asked() -> None:
    now = [0.0]

    def call() -> None:
        now[0] += 0.5

    assert repeat(call, lambda: now[0], 0.0, 3) == [500.0] * 3
    assert repeat(call, lambda: now[0], 2.0, 1) == [500.0] * 4
