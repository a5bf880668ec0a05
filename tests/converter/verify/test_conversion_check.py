"""What `convert` compares: the graphs everywhere, the engine where a GPU is that can run it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.converter.cli.commands.running import refused, trtsmith
from tests.converter.models import inverse
from tests.converter.verify.fake_engine import FakeEngine
from trtsmith.converter.engine.build.gpu import Gpu
from trtsmith.converter.model.errors import UsageError
from trtsmith.converter.verify import conversion_check, engine
from trtsmith.importers.problem import Problem

AMPERE, HOPPER = Gpu("NVIDIA A10", (8, 6)), Gpu("NVIDIA H200", (9, 0))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.chdir(tmp_path)
    made = FakeEngine(inverse(tmp_path / "m.onnx"))
    monkeypatch.setattr(engine, "run_engine", made.run)
    return made


def convert(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str, dict[str, object]]:
    ran = trtsmith(capsys, "convert", "m.onnx", "-o", "e.plan", "-q", "--target", "sm86", *flags)
    return ran.code, ran.out, json.loads(Path("e.manifest.json").read_text())["verdict"]


def test_the_engine_is_run_where_its_gpu_is(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion_check, "find_gpu", lambda: AMPERE)
    code, out, verdict = convert(capsys)
    assert code == 0 and verdict["engine_run"] is True and len(fake.asked) == 1
    assert "; the graphs agree: largest relative error" in out and "compute in TF32" in out
    (request,) = fake.requests
    assert [p.name for p in request.plugin_libraries] == ["libtrtsmith_plugins.so"] and request.targets == (
        "sm86",
    )
    fake.planted = lambda outputs: {"y": outputs["y"] * 1.05}
    code, out, verdict = convert(capsys)
    assert code == 3 and verdict["status"] == "disagree" and "; the graphs agree" in out
    assert convert(capsys, "--verify", "graph")[0] == 0


def test_graphs_that_disagree_are_the_verdict(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion_check, "find_gpu", lambda: AMPERE)
    np.savez("x.npz", x=np.eye(4, dtype=np.float32) + np.ones((2, 4, 4), np.float32) / 9)
    np.savez("y.npz", y=np.ones((2, 4, 4), np.float32))
    code, _, verdict = convert(capsys, "--inputs", "x.npz", "--expected", "y.npz")
    assert code == 3 and verdict["engine_run"] is False and not fake.asked


@pytest.mark.parametrize(
    ("gpu", "flags", "words"),
    [
        (None, (), "not run: there is no NVIDIA GPU here"),
        (HOPPER, (), "not run: it is for sm86, and the GPU here is NVIDIA H200, sm90"),
        (AMPERE, ("--verify", "graph"), "not run: --verify graph"),
    ],
)
def test_the_engine_is_not_run(
    gpu: Gpu | None,
    flags: tuple[str, ...],
    words: str,
    fake: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversion_check, "find_gpu", lambda: gpu)
    code, out, verdict = convert(capsys, *flags)
    assert code == 0 and words in out and verdict["engine_run"] is False and not fake.asked


def test_it_is_run_on_another_gpu_if_asked_for(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion_check, "find_gpu", lambda: HOPPER)
    assert convert(capsys, "--verify", "engine")[2]["engine_run"] is True


def test_asked_for_without_a_gpu(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion_check, "find_gpu", lambda: None)
    ran = trtsmith(capsys, "convert", "m.onnx", "-o", "e.plan", "-q", "--verify", "engine")
    refused(ran, 2, "there is no NVIDIA GPU here", "--verify graph")
    assert not Path("e.plan").exists()
    ran = trtsmith(capsys, "convert", "m.onnx", "-o", "e.plan", "--verify", "engine", "--no-verify")
    refused(ran, 2, "not allowed with argument")


def test_an_engine_that_cannot_be_run_is_kept_and_is_no_pass(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise UsageError(Problem("the GPU is out of memory", "e.plan", "20 GB", "close other programs"))

    monkeypatch.setattr(conversion_check, "find_gpu", lambda: AMPERE)
    monkeypatch.setattr(engine, "run_engine", broken)
    code, out, verdict = convert(capsys)
    assert code == 3 and verdict["status"] == "not comparable" and Path("e.plan").is_file()
    assert "the engine could not be run: the GPU is out of memory" in out and "close other programs" in out


def test_an_output_that_is_nan_everywhere_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two outputs the other one passes, and the verdict says that it is one of two; alone it is no pass."""
    pytest.importorskip("tensorrt_rtx")
    monkeypatch.chdir(tmp_path)
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) =>'
    nan = "one = Constant <value = float {1.0}> ()  a = Abs (x)  b = Add (a, one)  c = Neg (b)  y = Log (c)"
    for outputs, code, status in (
        ("float[3] y, float[3] z", 3, "agrees in part"),
        ("float[3] y", 3, "not comparable"),
    ):
        onnx.save(onnx.parser.parse_model(f"{head} ({outputs}) {{ {nan}  z = Neg (x) }}"), "m.onnx")
        found, out, verdict = convert(capsys)
        assert (found, verdict["status"]) == (code, status)
        assert "output 'y' is not comparable: it is NaN or infinite everywhere" in out
        assert "--inputs FILE.npz" in out and verdict["left_out"][0]["output"] == "y"
        assert verdict["outputs"] == {"y": "not comparable", "z": "agree"} or "z" not in outputs
        found, out, verdict = convert(capsys, "--not-compared", "y")
        assert (found, verdict["status"]) == ((0, "agree") if "z" in outputs else (3, "not comparable"))
        assert verdict["outputs"]["y"] == "not compared" and "; accepted" in out
    unknown = trtsmith(capsys, "convert", "m.onnx", "-o", "e.plan", "--not-compared", "w")
    refused(unknown, 2, "the model has no output 'w'", "--not-compared w")


def test_steps_do_not_repeat_the_name_of_their_stage(
    fake: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(conversion_check, "steps_of", lambda progress: steps.append)
    convert(capsys)
    assert "running the rewritten graph in onnxruntime" in steps
