"""trtsmith locate and trtsmith plugin replay: output, files, exit codes, and refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.conftest import gpu_count
from tests.converter.cli.commands.running import Cli, refused, refuses
from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import INFO, FakeTensorRT
from tests.converter.models import inverse, relu, written
from tests.converter.plugin.saved import folder
from tests.converter.rewrite.precision.networks import normal
from trtsmith.converter.cli.commands import locate as locate_command
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.locate import prepare
from trtsmith.converter.locate.executors.executor import Onnxruntime
from trtsmith.converter.model.load import load_model
from trtsmith.converter.plugin import replay as replay_module
from trtsmith.converter.plugin.replay import Replay
from trtsmith.importers.opdef import Arrays

no_gpu = pytest.mark.skipif(gpu_count() > 0, reason="there is a GPU")


def wrong_softmax(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        if node.name == "softmax":
            node.attribute[0].i = 0


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what takes the place of TensorRT."""

    real = prepare.prepared

    def install(fake: FakeTensorRT) -> FakeTensorRT:
        def patched(asked: prepare.LocateOptions) -> Any:
            return real(asked, fake.run)

        monkeypatch.setattr(locate_command, "prepared", patched)
        monkeypatch.setattr(prepare, "build", fake.build)
        monkeypatch.setattr(prepare, "find_gpu", lambda: Gpu("a GPU", (8, 6)))
        return fake

    return install


@pytest.fixture(autouse=True)
def model(here: Path) -> None:
    network(here / "m.onnx")


def test_a_wrong_node_is_named_saved_and_written_as_json(engines: Any, cli: Cli) -> None:
    engines(FakeTensorRT(wrong_softmax))
    ran = cli("locate m.onnx --shapes x=1x8:6x8:9x8 -o found --json r.json --on tensorrt")
    assert ran.code == 3, ran
    assert "node: softmax (Softmax)" in ran.out and "saved: found" in ran.out and "6x8" in ran.out
    document = json.loads(Path("r.json").read_text())
    assert (document["status"], document["nodes"][0]["name"]) == ("node", "softmax")
    again = cli("locate found/node.onnx --inputs found/inputs.npz -o again")
    assert again.code == 3 and "node: softmax (Softmax)" in again.out


def test_the_folder_is_named_after_the_model(engines: Any, cli: Cli) -> None:
    locate = "locate m.onnx --shapes x=4x8 -q"
    engines(FakeTensorRT())
    ran = cli(locate)
    assert (ran.code, ran.err) == (0, "") and "every value agrees" in ran.out
    assert not Path("m.located").exists()
    engines(FakeTensorRT(wrong_softmax))
    assert cli(locate).code == 3
    assert Path("m.located", "node.onnx").is_file()


def test_an_engine_is_run_as_its_manifest_says_and_judged(engines: Any, cli: Cli) -> None:
    engine = Path("m.plan").absolute()
    engine.write_bytes(b"an engine")
    requests: list[RunRequest] = []

    class Stale(FakeTensorRT):
        def run(self, request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
            requests.append(request)
            if request.engine_path.name == engine.name:
                outputs = Onnxruntime().execute(load_model(Path("m.onnx")), feeds[0])
                return RunResult(INFO, ({"y": outputs["y"] * 2},), 0.0)
            return super().run(request, feeds)

    engines(Stale())
    ran = cli("locate m.onnx", engine, "--shapes", "x=4x8", "-o", "found")
    assert ran.code == 3 and "built from another" in ran.out
    assert requests[0].engine_path == engine


def test_the_precision_is_the_user_s(engines: Any, cli: Cli) -> None:
    fake = engines(FakeTensorRT())
    locate = "locate m.onnx --shapes x=4x8 --json r.json"
    assert cli(f"{locate} --precision bf16 --keep-fp32 second").code == 0
    dtypes = {v["name"]: v["dtype"] for v in json.loads(Path("r.json").read_text())["values"]}
    assert fake.requests and (dtypes["h"], dtypes["p"]) == ("bfloat16", "float32")
    refused(cli(f"{locate} --precision int8"), 2, "--precision int8")
    refused(cli(f"{locate} --keep-fp32 second"), 2, "--keep-fp32 has no effect")


@pytest.mark.parametrize(("flags", "code"), [("--rtol 1e-5 --atol 1e-6", 3), ("", 0)])
def test_where_the_precision_makes_the_difference_it_is_said(
    engines: Any, cli: Cli, flags: str, code: int
) -> None:
    engines(FakeTensorRT())
    np.savez("in.npz", **x())
    locate = f"locate m.onnx --inputs in.npz --precision fp16 --json r.json {flags}"
    ran = cli(locate)
    document = json.loads(Path("r.json").read_text())
    assert (ran.code, document["status"]) == (code, "rounding" if code else "agree"), ran
    assert ("precision: float16" in ran.out and "what to do: add --keep-fp32" in ran.out) is bool(code)
    if code:
        assert cli(locate + "".join(f" --keep-fp32 {name}" for name in document["wide"])).code == 0


@no_gpu
@pytest.mark.parametrize("flags", ["", "--on emulation "])
def test_a_precision_is_searched_by_emulation_without_a_gpu(here: Path, cli: Cli, flags: str) -> None:
    """The difference of two products that are nearly the same does not bear float16."""
    k = normal(64, 64).astype(np.float16).astype(np.float32)
    text = "(float[N,64] x) => (float[N,64] y) { [p] a = MatMul (x, k) [q] b = MatMul (x, m) [d] y = Sub (a, b) }"
    written(here / "d.onnx", text, {"k": k, "m": k + normal(64, 64, scale=1e-4, seed=1)})
    locate = f"locate d.onnx --precision fp16 --shapes x=2x64 --json r.json {flags}"
    ran = cli(locate)
    document = json.loads(Path("r.json").read_text())
    assert (ran.code, document["status"], document["emulated"]) == (3, "rounding", True), ran
    assert "no engine was run" in ran.out and "precision: float16" in ran.out
    assert document["wide"] and "what to do: add --keep-fp32 " in ran.out
    kept = cli(locate + "".join(f" --keep-fp32 {name}" for name in document["wide"]))
    assert kept.code == 0 and "the outputs agree with the original's" in kept.out


@no_gpu
def test_engines_are_not_built_where_they_cannot_run(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "build", FakeTensorRT().build)
    locate = "locate m.onnx --shapes x=4x8"
    for more in ("", " --precision fp16 --on tensorrt"):
        refused(cli(locate + more), 2, "there is no NVIDIA GPU here to run engines on", "--on emulation")
    refused(cli(f"{locate} --on emulation"), 2, "add --precision fp16")
    assert cli(f"{locate} --on emulation --precision fp16").code == 0


def test_tolerances_are_of_the_outputs(engines: Any, cli: Cli) -> None:
    """With outputs that are allowed to differ there is still a node that does."""
    engines(FakeTensorRT())
    assert cli("locate m.onnx --shapes x=4x8 --rtol 1e-2").code == 0
    refused(cli("locate m.onnx --shapes x=4x8 --rtol z:1"), 2, "the model has no output 'z'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("r.onnx -o strange", "'mine.txt'"),
        ("r.onnx -o a/b", "does not exist"),
        ("none.onnx", "none.onnx"),
        ("r.onnx none.plan", "none.plan"),
        ("r.onnx --on kernels", "no plugin nodes"),
        ("i.onnx --on kernels --native", "no plugin nodes"),
        ("r.onnx --json r.onnx", "would replace"),
        ("r.onnx e.plan --json e.manifest.json", "would replace"),
        ("r.onnx --memory 0", "whole number"),
        ("r.onnx --inputs i.onnx", "--inputs"),
    ],
)
def test_what_is_refused(here: Path, cli: Cli, arguments: str, words: str) -> None:
    relu(here / "r.onnx")
    inverse(here / "i.onnx")
    (here / "strange").mkdir()
    (here / "strange" / "mine.txt").write_text("")
    refuses(cli, 2, f"locate {arguments}", words)


@no_gpu
def test_kernels_without_a_gpu(here: Path, cli: Cli) -> None:
    inverse(here / "i.onnx")
    folder(here / "saved")
    refused(cli("locate i.onnx --on kernels -o out"), 2, "no GPU to run kernels on")
    refused(cli("plugin replay saved"), 2, "no GPU to run the kernel on")


def test_replay_of_something_else(tmp_path: Path, cli: Cli) -> None:
    refused(cli("plugin replay", tmp_path), 2, "node.onnx")
    saved = folder(tmp_path / "saved")
    np.savez(saved / "inputs.npz", other=np.ones(1))
    refused(cli("plugin replay", saved), 2, "missing: x")


@pytest.mark.parametrize(("right", "code"), [(True, 0), (False, 3)])
def test_replay_says_whom_to_blame(
    right: bool, code: int, here: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Replay("MatrixInverse", "a GPU", right, "error 1e-7")
    monkeypatch.setattr(replay_module, "replay", lambda *a, **k: found)
    folder(here / "saved")
    ran = cli("plugin replay saved")
    assert ran.code == code and ("the kernel is right" in ran.out) is right and "error 1e-7" in ran.out
    assert json.loads(cli("plugin replay saved --json").out)["right"] is right
