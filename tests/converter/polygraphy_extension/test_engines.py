"""--trtsmith: engines are really built, and run by onnxruntime on their graph in place of a GPU; plugins of --trt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.converter.models import written
from tests.converter.polygraphy_extension.polygraphy_runs import (
    CLOSE,
    SIZES,
    Polygraphy,
    deformed,
    passed,
    problem,
    script_of,
)
from tests.converter.verify.fake_engine import FakeEngine
from tests.polygraphy_registration import metadata_folder
from trtsmith.converter.engine.child.pool import child_environment
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.polygraphy_extension import engine_runner

PROFILE = ("--trt-min-shapes", "x:[1,4,4]", "--trt-opt-shapes", "x:[2,4,4]", "--trt-max-shapes", "x:[5,4,4]")


class GraphRunner:
    """A trtsmith.Runner for which onnxruntime computes."""

    def __init__(self, request: RunRequest, fake: FakeEngine) -> None:
        self.info = fake.describe(request)
        self.warnings = ("made of paper",)
        self.closed = False
        self._request, self._fake = request, fake

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(self._fake.run(self._request, [dict(feeds)]).outputs[0])

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, model: Path) -> FakeEngine:
    """As if there were one: runners are GraphRunners of the model."""
    fake = FakeEngine(model)

    def opened(cls: type, request: RunRequest, *_: object) -> GraphRunner:
        fake.requests.append(request)
        return GraphRunner(request, fake)

    monkeypatch.setattr(engine_runner, "_check_gpu", lambda: None)
    monkeypatch.setattr("trtsmith.converter.engine.runtime.runner.Runner.of_request", classmethod(opened))
    monkeypatch.setattr("trtsmith.converter.engine.runtime.device.Device", lambda index: None)
    return fake


BOTH = ("--trtsmith", "--trtsmith-reference", "--load-inputs", "in.json")


@pytest.mark.usefixtures("inputs")
def test_an_engine_is_built_and_compared_with_the_reference(
    polygraphy: Polygraphy, model: Path, gpu: FakeEngine
) -> None:
    ran = polygraphy("run", model, *BOTH, *PROFILE, *CLOSE)
    assert passed(ran) and "2/2 iterations" in ran.out
    assert "Finished building engine. Nodes: 1 native, 1 plugin" in ran.out and "made of paper" in ran.out
    request = gpu.requests[0]
    assert [path.name for path in request.plugin_libraries] == ["libtrtsmith_plugins.so"]
    assert not request.engine_path.parent.exists()  # the temporary folder went with the runner
    gpu.planted = lambda outputs: {"y": outputs["y"] + 1}
    ran = polygraphy("run", model, *BOTH, *PROFILE, *CLOSE)
    assert ran.code == 1 and "FAILED | Output: 'y'" in ran.out


@pytest.mark.usefixtures("gpu")
def test_an_engine_is_kept_and_taken_again(polygraphy: Polygraphy, model: Path, inputs: Path) -> None:
    kept = ("--trtsmith-save-engine", "kept.plan", "--fp16")
    ran = polygraphy("run", model, "--trtsmith", *kept, "--load-inputs", inputs, *PROFILE)
    assert ran.code == 0, ran
    assert Path("libtrtsmith_plugins.so").is_file()
    assert json.loads(Path("kept.manifest.json").read_text())["precision"] == "fp16"
    engine = Path("kept.plan").read_bytes()
    words = (*BOTH, "--trtsmith-engine", "kept.plan")
    assert passed(polygraphy("run", model, *words, *CLOSE))
    assert polygraphy("run", "kept.plan", "--trtsmith", "--load-inputs", inputs).code == 0
    assert Path("kept.plan").read_bytes() == engine
    Path("libtrtsmith_plugins.so").unlink()
    problem(polygraphy("run", model, *words), "plugin library libtrtsmith_plugins.so is missing")


def test_the_edges_of_the_model_are_kept_though_the_engine_has_others(
    polygraphy: Polygraphy, gpu: FakeEngine
) -> None:
    """float64 in the model, float32 in the engine."""
    text = "(double[2,4,4] x) => (double[2,4,4] y) { n = Neg (x) y = com.microsoft.Inverse (n) }"
    path = written(Path("d.onnx"), text)
    gpu.model = path
    ran = polygraphy("run", path, "--trtsmith", "--val-range", "[1,2]")
    assert ran.code == 0 and "{x [dtype=float64" in ran.out and "{y [dtype=float64" in ran.out


def test_values_that_decide_shapes_are_in_the_profile(polygraphy: Polygraphy, gpu: FakeEngine) -> None:
    """Polygraphy says them with the option for shapes."""
    text = """(float[1,3,16,16] x, int64[4] sizes) => (float[1,3,h,w] y) {
        y = Resize <mode = "linear"> (x, , , sizes) }"""
    path = written(Path("r.onnx"), text)
    sides = {"min": 8, "opt": 16, "max": 32}
    shapes = [word for at, n in sides.items() for word in (f"--trt-{at}-shapes", f"sizes:[1,3,{n},{n}]")]
    script = script_of(polygraphy, path, "--trtsmith", *shapes)
    exec(compile(script.split("# Runners")[0], "g.py", "exec"), found := {})
    built = found["build_trtsmith_engine"]()
    manifest = json.loads(built.path.with_name("model.manifest.json").read_text())
    assert manifest["profiles"][0]["sizes"] == {at: [1, 3, n, n] for at, n in sides.items()} | {
        "values": True
    }
    built.close()
    assert not built.path.parent.exists()


def test_without_a_gpu_nothing_is_built(polygraphy: Polygraphy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtsmith.converter.engine.builder.gpu.find_gpu", lambda: None)
    ran = polygraphy("run", deformed(Path("t.onnx")), "--trtsmith", "--trtsmith-reference", *SIZES)
    problem(ran, "There is no NVIDIA GPU to run the engine")
    assert "Building" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.plan", "--trtsmith"), "There is no such file"),
        (("m.onnx", "--trtsmith", "--trtsmith-engine", "none.plan"), "There is no such file"),
        (
            ("m.onnx", "--trtsmith", "--trtsmith-engine", "e.plan", "--trtsmith-save-engine", "f.plan"),
            "together with an existing engine",
        ),
        (("e.plan", "--trtsmith", "--trtsmith-save-engine", "f.plan"), "together with an existing engine"),
        (("m.onnx", "--trtsmith", "--fp16", "--int8"), "several precisions"),
        (("m.onnx", "--trtsmith", *PROFILE, *PROFILE), "2 optimization profiles"),
        (("m.onnx", "--trtsmith"), "--trt-min-shapes x:[1,4,4] --trt-opt-shapes"),
        (("m.onnx", "--trtsmith", "--trtsmith-save-engine", "m.onnx", *PROFILE), "m.onnx"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: str, polygraphy: Polygraphy, gpu: FakeEngine) -> None:
    before = Path("m.onnx").read_bytes()
    problem(polygraphy("run", *arguments), words)
    assert Path("m.onnx").read_bytes() == before and not Path("f.plan").exists()


def test_the_script_for_an_engine_is_whole(
    polygraphy: Polygraphy, model: Path, gpu: FakeEngine, inputs: Path
) -> None:
    words = ("--trtsmith", "--trtsmith-reference", "--load-inputs", inputs, *PROFILE, *CLOSE, "--bf16")
    script = script_of(
        polygraphy, model, *words, "--plugins", "mine.so", "--trtsmith-flavour", "tensorrt_rtx"
    )
    assert not gpu.requests  # nothing is built for a script
    assert (
        "shapes={'x': ((1, 4, 4), (2, 4, 4), (5, 4, 4))}, flavour='tensorrt_rtx', precision='bf16'" in script
    )
    assert "TrtsmithRunner(build_trtsmith_engine, plugins=['mine.so'], flavour='tensorrt_rtx')" in script
    script = script_of(polygraphy, model, *words)
    exec(compile(script.split("# Runner Execution")[0], "g.py", "exec"), found := {})
    with found["runners"][0] as runner:
        y = runner.infer({"x": 2 * np.eye(4, dtype=np.float32)[None]})["y"]
    np.testing.assert_allclose(y, -np.eye(4)[None] / 2, rtol=1e-2)


MAIN = "import sys; from polygraphy.tools import main; sys.exit(main())"
BUILD = """
found = {}
exec(open("g.py").read().split("# Runners")[0], found)
print("bytes:", len(bytes(found["build_engine"]())))
"""


@pytest.mark.parametrize("named", [True, False])
def test_polygraphys_tensorrt_builds_with_our_plugins(
    named: bool, polygraphy: Polygraphy, model: Path
) -> None:
    """The rewritten graph with a plugin node, in TensorRT-RTX, whose library has to be there by its plain name."""
    environment = {**os.environ, "POLYGRAPHY_USE_TENSORRT_RTX": "1"}
    if named:
        environment = child_environment("tensorrt_rtx", Path.cwd()) | {"POLYGRAPHY_USE_TENSORRT_RTX": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(metadata_folder(Path("metadata")).absolute()), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    command = [sys.executable, "-c", MAIN, "run", str(model), "--trtsmith-rewrite", "--trt", *PROFILE]
    subprocess.run([*command, "--gen-script", "g.py"], env=environment, check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-c", BUILD], env=environment, capture_output=True, text=True)
    if named:
        assert done.returncode == 0, done.stdout + done.stderr
        assert int(done.stdout.rsplit("bytes:", 1)[1]) > 1000
    else:
        assert done.returncode == 1 and "would end this process at the first plugin node" in done.stderr
        assert "use --trtsmith, which does this for you" in done.stderr
