"""trtsmith run: output and files with a stand-in for the child, and the real child without a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.converter.cli.commands.running import Cli, refused, refuses
from tests.converter.models import written
from trtsmith.converter.cli.commands import run as run_command
from trtsmith.converter.engine.builder.build_request import Profile
from trtsmith.converter.engine.builder.gpu import Gpu, find_gpu
from trtsmith.converter.engine.bundle.bundle import file_digest
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.engine.runtime.tensors import EngineInfo, TensorSpec

INFO = EngineInfo(
    flavour="tensorrt_rtx",
    version="1.6.1.120",
    gpu="NVIDIA H200",
    compute_capability="9.0",
    inputs=(
        TensorSpec("x", "float32", (-1, 3), True, profiles=(Profile((1, 3), (2, 3), (8, 3)),)),
        TensorSpec("s", "int64", (2,), True, True, (Profile((1, 1), (2, 3), (6, 6), values=True),)),
    ),
    outputs=(TensorSpec("y", "bfloat16", (-1, 3), False),),
    profiles=1,
    device_memory=3 << 19,
)


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    (here / "m.plan").write_bytes(b"engine" * 100)
    (here / "model.onnx").write_bytes(b"model")
    np.savez(here / "in.npz", x=np.array([[1, 2, 3]], np.float32))
    return here


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """The requests that would go to a child, which answers y = 2 x in bfloat16."""
    requests: list[RunRequest] = []

    def run_engine(
        request: RunRequest, feeds: Sequence[Mapping[str, np.ndarray]], on_progress: Any = None
    ) -> RunResult:
        requests.append(request)
        on_progress("running the engine")
        outputs = {
            "y": (feeds[0]["x"] * 2).astype(ml_dtypes.bfloat16),
            "bad": np.array([np.inf, 1.0], np.float32),
        }
        return RunResult(INFO, (outputs,), 1.0, ("no CUDA graph is used: reason",))

    def describe_engine(request: RunRequest, on_progress: Any = None) -> EngineInfo:
        requests.append(request)
        return INFO

    monkeypatch.setattr(run_command, "run_engine", run_engine)
    monkeypatch.setattr(run_command, "describe_engine", describe_engine)
    return requests


LISTED = """\
loaded by tensorrt_rtx 1.6.1.120 on NVIDIA H200 (compute capability 9.0)
memory of an execution context: 1.5 MiB
        name  type and shape
input   x     float32[?, 3]
input   s     int64[2]        its values decide shapes
output  y     bfloat16[?, 3]
profile 0: x=1x3:2x3:8x3, s=[1,1]:[2,3]:[6,6]
"""

RAN = """\
output  type      shape  smallest  largest
y       bfloat16  1x3    2         6
bad     float32   2      1         inf      1 are not finite
read 'y' with numpy.load(FILE)['y'].view(ml_dtypes.bfloat16)
"""


BUILT = """\
built by tensorrt_rtx 1.7.1.116 for sm86, says the manifest; there is no NVIDIA GPU here to load it on
        name  type and shape
input   x     float16[?, 4]   float32 in the model
output  y     float16[?, 4]   float32 in the model
profile 0: x=1x4:2x4:8x4
"""


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "find_gpu", lambda: None)


@pytest.mark.usefixtures("no_gpu")
def test_list_without_a_gpu_is_the_manifests(folder: Path, cli: Cli) -> None:
    written(Path("m.onnx"), "(float[N,4] x) => (float[N,4] y) { y = Relu (x) }")
    built = cli(
        "convert m.onnx -o m.plan --target sm86 --no-verify --shapes x=1x4:2x4:8x4 --precision fp16 --io-precision "
        "--flavour tensorrt_rtx --force"
    )
    assert built.code == 0, built
    ran = cli("run m.plan --list")
    assert (ran.code, ran.out, ran.err) == (0, BUILT, "")
    refused(cli("run m.plan --list --flavour tensorrt"), 2, "tensorrt cannot load it")
    (folder / "m.plan").write_bytes(b"another")
    refused(cli("run m.plan --list"), 2, "belongs to another engine")
    (folder / "m.manifest.json").write_text("{}")
    refused(cli("run m.plan --list"), 2, "The engine's manifest cannot be read")
    refused(cli("run m.manifest.json --list"), 2, "name the engine beside it: m.plan")
    (folder / "m.manifest.json").unlink()
    refused(cli("run m.plan --list"), 2, "there is no manifest beside the engine")
    refused(cli("run none.plan --list"), 2, "There is no such file")


@pytest.mark.usefixtures("no_gpu")
def test_list_without_a_gpu_needs_no_plugin_library(folder: Path, cli: Cli) -> None:
    facts = {
        "tensorrt": {"flavour": "tensorrt", "version": "10.16"},
        "targets": ["sm90"],
        "inputs": [{"name": "x\ny", "dtype": "float32", "shape": [2]}],
        "outputs": [],
        "files": {"p.so": "sha256:0", "m.plan": file_digest(folder / "m.plan")},
    }
    (folder / "m.manifest.json").write_text(json.dumps(facts))
    ran = cli("run m.plan --list")
    assert ran.code == 0 and "input  x\\ny  float32[2]" in ran.out and "profile" not in ran.out


def test_list(asked: list[RunRequest], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "find_gpu", lambda: Gpu("NVIDIA H200", (9, 0)))
    for more in ("", "--inputs none.npz"):  # which are not read for it
        ran = cli(f"run m.plan --list {more}")
        assert (ran.code, ran.out, ran.err) == (0, LISTED, "")


def test_what_is_not_finite_is_counted_in_types_that_numpy_does_not_know() -> None:
    shown = run_command.render_outputs({"y": np.array([np.nan, 1, -np.inf], ml_dtypes.bfloat16)})
    assert "2 are not finite" in shown


def test_run(asked: list[RunRequest], folder: Path, cli: Cli) -> None:
    options = "--profile 1 --cuda-graph --timeout 2.5 --runtime-cache k --flavour tensorrt"
    ran = cli(f"run m.plan --inputs in.npz -o out.npz --embedded-plugins {options}")
    assert (ran.code, ran.out) == (0, RAN)
    assert ran.err == "  running the engine\nwarning: no CUDA graph is used: reason\n"
    with np.load(folder / "out.npz") as outputs:
        assert outputs["y"].view(ml_dtypes.bfloat16).tolist() == [[2, 4, 6]]
    assert asked == [
        RunRequest(
            Path("m.plan"),
            flavour="tensorrt",
            runtime_cache=Path("k"),
            cuda_graph=True,
            timeout_s=2.5,
            profile=1,
            embedded_plugins=True,
        )
    ]


def test_libraries(asked: list[RunRequest], folder: Path, cli: Cli) -> None:
    (folder / "p.so").write_bytes(b"library")
    cli("run m.plan --inputs in.npz --plugins p.so -v")
    assert asked[0].plugin_libraries == (Path("p.so"),) and asked[0].verbose


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("none.plan", "no such file"),
        ("model.onnx --list", "The file's name says that it is a model"),
        ("model.onnx --inputs in.npz", "trtsmith convert model.onnx"),
        ("m.plan --inputs none.npz", "--inputs none.npz"),
        ("m.plan --inputs in.npz -o .", "the file of the outputs is a folder"),
        ("m.plan --inputs in.npz -o no/out.npz", "the file of the outputs cannot be written"),
        ("m.plan --inputs in.npz -o in.npz", "the file of the outputs would replace in.npz"),
        ("m.plan --inputs in.npz -o m.plan", "would replace m.plan"),
        ("m.plan --inputs in.npz --runtime-cache m.plan", "the runtime cache would replace m.plan"),
        (
            "m.plan --inputs in.npz -o k.bin --runtime-cache k.bin",
            "the file of the outputs would replace k.bin",
        ),
        ("m.plan --plugins p.so", "p.so"),
    ],
)
def test_refusals(arguments: str, words: str, cli: Cli) -> None:
    refuses(cli, 2, f"run {arguments}", words)


@pytest.mark.skipif(find_gpu() is not None, reason="there is a GPU")
def test_no_gpu(cli: Cli) -> None:
    refuses(cli, 2, "run m.plan --inputs in.npz -o out.npz", "There is no NVIDIA GPU")
