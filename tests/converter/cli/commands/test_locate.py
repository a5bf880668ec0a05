"""trtsmith locate and trtsmith plugin replay: what is printed, written and returned, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.conftest import gpu_count
from tests.converter.cli.commands.running import Cli, refused, snapshot
from tests.converter.locate.graphs import network, x
from tests.converter.locate.sabotage import INFO, FakeTensorRT
from tests.converter.models import inverse, relu
from tests.converter.plugin.saved import folder
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.locate import prepare
from trtsmith.converter.locate.executors.executor import Arrays, Onnxruntime
from trtsmith.converter.model.load import load_model
from trtsmith.converter.plugin import replay as replay_module
from trtsmith.converter.plugin.replay import Replay

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

        monkeypatch.setattr(prepare, "prepared", patched)
        monkeypatch.setattr(prepare, "build", fake.build)
        return fake

    return install


def test_a_wrong_node_is_named_saved_and_written_as_json(engines: Any, tmp_path: Path, cli: Cli) -> None:
    engines(FakeTensorRT(wrong_softmax))
    network(tmp_path / "m.onnx")
    report, saved = tmp_path / "r.json", tmp_path / "found"
    ran = cli("locate", tmp_path / "m.onnx", "--shapes", "x=1x8:6x8:9x8", "-o", saved, "--json", report, "--on", "tensorrt")  # fmt: skip
    assert ran.code == 3, ran
    assert "node: softmax (Softmax)" in ran.out and f"saved: {saved}" in ran.out and "6x8" in ran.out
    document = json.loads(report.read_text())
    assert (document["status"], document["nodes"][0]["name"]) == ("node", "softmax")
    again = cli("locate", saved / "node.onnx", "--inputs", saved / "inputs.npz", "-o", tmp_path / "again")
    assert again.code == 3 and "node: softmax (Softmax)" in again.out


def test_the_folder_is_named_after_the_model(
    engines: Any, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    network(tmp_path / "m.onnx")
    arguments = ("locate", "m.onnx", "--shapes", "x=4x8", "-q")
    engines(FakeTensorRT())
    ran = cli(*arguments)
    assert (ran.code, ran.err) == (0, "") and "every value agrees" in ran.out
    assert not (tmp_path / "m.located").exists()
    engines(FakeTensorRT(wrong_softmax))
    assert cli(*arguments).code == 3
    assert (tmp_path / "m.located" / "node.onnx").is_file()


def test_an_engine_is_run_as_its_manifest_says_and_judged(engines: Any, tmp_path: Path, cli: Cli) -> None:
    network(tmp_path / "m.onnx")
    (tmp_path / "m.plan").write_bytes(b"an engine")
    requests: list[RunRequest] = []

    class Stale(FakeTensorRT):
        def run(self, request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
            requests.append(request)
            if request.engine_path == tmp_path / "m.plan":
                outputs = Onnxruntime().execute(load_model(tmp_path / "m.onnx"), feeds[0])
                return RunResult(INFO, ({"y": outputs["y"] * 2},), 0.0)
            return super().run(request, feeds)

    engines(Stale())
    ran = cli(
        "locate", tmp_path / "m.onnx", tmp_path / "m.plan", "--shapes", "x=4x8", "-o", tmp_path / "found"
    )
    assert ran.code == 3 and "built from another" in ran.out
    assert requests[0].engine_path == tmp_path / "m.plan"


def test_the_precision_is_the_user_s(engines: Any, tmp_path: Path, cli: Cli) -> None:
    network(tmp_path / "m.onnx")
    fake = engines(FakeTensorRT())
    arguments = ("locate", tmp_path / "m.onnx", "--shapes", "x=4x8", "--json", tmp_path / "r.json")
    assert cli(*arguments, "--precision", "bf16", "--keep-fp32", "second").code == 0
    dtypes = {v["name"]: v["dtype"] for v in json.loads((tmp_path / "r.json").read_text())["values"]}
    assert fake.requests and (dtypes["h"], dtypes["p"]) == ("bfloat16", "float32")
    refused(cli(*arguments, "--precision", "int8"), 2, "--precision int8")
    refused(cli(*arguments, "--keep-fp32", "second"), 2, "--keep-fp32 has no effect")


@pytest.mark.parametrize(("flags", "code"), [(("--rtol", "1e-5", "--atol", "1e-6"), 3), ((), 0)])
def test_where_the_precision_makes_the_difference_it_is_said(
    engines: Any, tmp_path: Path, cli: Cli, flags: tuple[str, ...], code: int
) -> None:
    network(tmp_path / "m.onnx")
    engines(FakeTensorRT())
    np.savez(tmp_path / "in.npz", **x())
    arguments = ("--inputs", tmp_path / "in.npz", "--precision", "fp16", "--json", tmp_path / "r.json")
    ran = cli("locate", tmp_path / "m.onnx", *arguments, *flags)
    document = json.loads((tmp_path / "r.json").read_text())
    assert (ran.code, document["status"]) == (code, "rounding" if code else "agree"), ran
    assert ("precision: float16" in ran.out and "what to do: add --keep-fp32" in ran.out) is bool(code)
    if not code:
        return
    keep = [word for name in document["wide"] for word in ("--keep-fp32", name)]
    assert cli("locate", tmp_path / "m.onnx", *arguments, *flags, *keep).code == 0


def test_tolerances_are_of_the_outputs(engines: Any, tmp_path: Path, cli: Cli) -> None:
    """With outputs that are allowed to differ there is still a node that does."""
    network(tmp_path / "m.onnx")
    engines(FakeTensorRT())
    arguments = ("locate", tmp_path / "m.onnx", "--shapes", "x=4x8")
    assert cli(*arguments, "--rtol", "1e-2").code == 0
    refused(cli(*arguments, "--rtol", "z:1"), 2, "the model has no output 'z'")


def test_what_is_refused(tmp_path: Path, cli: Cli) -> None:
    relu(tmp_path / "m.onnx")
    inverse(tmp_path / "i.onnx")
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "mine.txt").write_text("")
    before = snapshot(tmp_path)
    model = tmp_path / "m.onnx"
    for arguments, code, words in (
        ((model, "-o", strange), 2, "'mine.txt'"),
        ((model, "-o", tmp_path / "a" / "b"), 2, "not there"),
        ((tmp_path / "none.onnx",), 2, "none.onnx"),
        ((model, tmp_path / "none.plan"), 2, "none.plan"),
        ((model, "--on", "kernels"), 2, "no plugin nodes"),
        ((tmp_path / "i.onnx", "--on", "kernels", "--native"), 2, "no plugin nodes"),
        ((model, "--json", model), 2, "would replace"),
        ((model, tmp_path / "e.plan", "--json", tmp_path / "e.manifest.json"), 2, "would replace"),
        ((model, "--memory", "0"), 2, "whole number"),
        ((model, "--inputs", tmp_path / "i.onnx"), 2, "--inputs"),
    ):
        refused(cli("locate", *arguments), code, words)
    assert snapshot(tmp_path) == before


@no_gpu
def test_kernels_without_a_gpu(tmp_path: Path, cli: Cli) -> None:
    model = inverse(tmp_path / "m.onnx")
    refused(
        cli("locate", model, "--on", "kernels", "-o", tmp_path / "out"),
        2,
        "no GPU to run kernels on",
    )
    refused(cli("plugin replay", folder(tmp_path / "saved")), 2, "no GPU to run the kernel on")


def test_replay_of_something_else(tmp_path: Path, cli: Cli) -> None:
    refused(cli("plugin replay", tmp_path), 2, "node.onnx")
    saved = folder(tmp_path / "saved")
    np.savez(saved / "inputs.npz", other=np.ones(1))
    refused(cli("plugin replay", saved), 2, "missing: x")


@pytest.mark.parametrize(("right", "code"), [(True, 0), (False, 3)])
def test_replay_says_whom_to_blame(
    right: bool,
    code: int,
    tmp_path: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        replay_module, "replay", lambda *a, **k: Replay("MatrixInverse", "a GPU", right, "error 1e-7")
    )
    saved = folder(tmp_path / "saved")
    ran = cli("plugin replay", saved)
    assert ran.code == code and ("the kernel is right" in ran.out) is right and "error 1e-7" in ran.out
    assert json.loads(cli("plugin replay", saved, "--json").out)["right"] is right
