"""Engines with our and outside plugins: built by TensorRT-RTX, bundled, found again, inspected."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trtsmith
from tests.converter.locate.sabotage import INFO
from tests.converter.models import written
from tests.converter.plugin.fixtures import library
from tests.outside.compiled import HERE, compile_mixing
from trtsmith.converter.cli.commands import plugin_replay
from trtsmith.converter.cli.main import main
from trtsmith.converter.engine.bundle.run_from_bundle import request_for
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.run_request import RunRequest, RunResult
from trtsmith.converter.locate.executors.tensorrt import OnTensorRT
from trtsmith.converter.locate.prepare import LocateOptions, prepared
from trtsmith.converter.operators.loading import operators_in_force
from trtsmith.converter.plugin import calls
from trtsmith.converter.plugin.calls import KernelCall, KernelsByPlugin
from trtsmith.importers.opdef import Arrays

MODEL = (
    "(float[2,3,3] x) => (float[2,3,3] y) { i = com.microsoft.Inverse (x) [odds] y = mycompany.Logit (i) }"
)
X = np.random.default_rng(0).uniform(0.1, 0.3, (2, 3, 3)).astype(np.float32) + np.eye(3, dtype=np.float32)
LIBRARY = "libmixing_plugins.so"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package folder with its library."""
    folder = tmp_path_factory.mktemp("outside") / "mixed_engines"
    folder.mkdir()
    shutil.copy(HERE / "mixing.py", folder / "__init__.py")
    shutil.copytree(compile_mixing(folder.parent / "built").parent, folder / "lib")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "m.onnx", MODEL)


@pytest.fixture
def plan(package: Path, model: Path) -> Path:
    np.savez(model.parent / "in.npz", x=X)
    done = trtsmith.convert(
        model, model.parent / "m.plan", ops=package, inputs=model.parent / "in.npz", flavour="tensorrt_rtx", target="sm86"
    )  # fmt: skip
    assert [path.name for path in done.bundle.libraries] == [plugin_library().name, LIBRARY]
    return done.bundle.engine


def test_the_bundle_has_both_libraries_and_the_engine_is_run_with_them(plan: Path, package: Path) -> None:
    folder = plan.parent
    manifest = json.loads((folder / "m.manifest.json").read_text())
    assert list(manifest["files"]) == ["m.plan", plugin_library().name, LIBRARY]
    assert manifest["plugins"] == ["trtsmith::LogOdds version 1", "trtsmith::MatrixInverse version 1"]
    assert (folder / LIBRARY).read_bytes() == (package / "lib" / LIBRARY).read_bytes()
    request = request_for(plan, (), "auto")
    assert request.plugin_libraries == (folder / plugin_library().name, folder / LIBRARY)
    (folder / LIBRARY).unlink()
    with pytest.raises(trtsmith.UsageError, match=f"plugin library {LIBRARY} is missing"):
        request_for(plan, (), "auto")
    other = package / "lib" / LIBRARY
    assert request_for(plan, (other,), "auto").plugin_libraries[-1] == other


def test_a_library_may_be_inside_the_engine(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "m.onnx", MODEL.replace("i = com.microsoft.Inverse (x)", "i = Sigmoid (x)"))
    words = ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.plan"), "--ops", str(package)]
    words += ["--flavour", "tensorrt_rtx", "--target", "sm86", "-q"]
    assert main(words) == 0
    small = (tmp_path / "m.plan").stat().st_size
    assert main([*words, "--embed-plugins"]) == 0
    size = (package / "lib" / LIBRARY).stat().st_size
    assert (tmp_path / "m.plan").stat().st_size - small >= size  # and ours, which it needs not, is not in it
    assert (tmp_path / "m.plan").stat().st_size < plugin_library().stat().st_size
    said = capsys.readouterr()
    assert plugin_library().name not in said.out and "agree" in said.out


def test_without_a_library_nothing_is_built(
    package: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare" / "mixed_bare"
    bare.mkdir(parents=True)
    shutil.copy(package / "__init__.py", bare)
    assert main(["convert", str(model), "-o", str(tmp_path / "m.plan"), "--ops", str(bare)]) == 1
    said = capsys.readouterr().err
    assert "the operator LogOdds has no compiled plugin" in said and "trtsmith op build" in said
    assert not (tmp_path / "m.plan").exists()


def test_an_engine_with_plugins_of_three_kinds(package: Path, tmp_path: Path) -> None:
    text = """(float[2,3,3] x) => (float[6,3,3] y) { i = com.microsoft.Inverse (x) s = Sigmoid (i)
        p = mycompany.Logit (s) y = fixture.Repeat0 <repeats = 3, weights = [1.0, 2.0]> (p) }"""
    written(tmp_path / "m.onnx", text)
    asked: dict[str, Any] = {"ops": package, "plugins": library("good_v3"), "flavour": "tensorrt_rtx"}
    asked |= {"inputs": {"x": X}, "target": "sm86"}
    called = []

    def repeat(a: np.ndarray, repeats: int, weights: list[float]) -> np.ndarray:
        called.append((repeats, weights))
        return np.concatenate([a] * repeats)

    done = trtsmith.convert(tmp_path / "m.onnx", tmp_path / "m.plan", reference={"Repeat0": repeat}, **asked)
    names = [path.name for path in done.bundle.libraries]
    assert names == [plugin_library().name, LIBRARY, library("good_v3").name]
    assert [use.name for use in done.plan.plugins] == ["MatrixInverse", "LogOdds"]
    assert [use.name for use in done.plan.foreign] == ["Repeat0"]
    assert done.verdict.status == "agree" and called and set(map(str, called)) == {str((3, [1.0, 2.0]))}
    assert "the plugin of Repeat0 itself was not run" in done.verdict.reason

    doubled = {"mycompany::Logit": lambda p: 2 * np.log(p / (1 - p)), "Repeat0": repeat}
    odd = trtsmith.convert(tmp_path / "m.onnx", reference=doubled, **asked)
    assert odd.verdict.status == "disagree", "the function stands in for the definition of the package"


def test_locate_knows_the_library_of_each_plugin(plan: Path, model: Path, package: Path) -> None:
    def run(request: RunRequest, feeds: Sequence[Arrays]) -> RunResult:
        return RunResult(INFO, ({"y": feeds[0]["x"]},), 0.0)

    ours, theirs = plugin_library(), package / "lib" / LIBRARY
    with operators_in_force([str(package)], installed=False):
        with prepared(LocateOptions(model, on="tensorrt"), run) as ready:
            assert isinstance(ready.executor, OnTensorRT) and ready.executor.libraries == (ours, theirs)
        with prepared(LocateOptions(model, plan), run) as ready:
            assert isinstance(ready.executor, OnTensorRT)
            assert ready.executor.libraries == (plan.parent / ours.name, plan.parent / LIBRARY)
        shutil.copy(package / "__init__.py", model.parent / "bare.py")
    with operators_in_force([str(model.parent / "bare.py")], installed=False):
        with prepared(LocateOptions(model, on="tensorrt", native=True), run) as ready:
            assert isinstance(ready.executor, OnTensorRT) and ready.executor.libraries == ()
        refusal = pytest.raises(trtsmith.ConversionError, match="no compiled plugin")
        with refusal, prepared(LocateOptions(model), run):
            pass


def test_kernels_are_called_in_the_library_that_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    began: list[Path] = []
    ended: list[Path] = []

    class Worker:
        def __init__(self, library: Path, host: None, timeout_s: float) -> None:
            self.library, self.plugins = library, [library.stem.title()]
            assert (host, timeout_s) == (None, 7.0)

        def __enter__(self) -> Worker:
            began.append(self.library)
            return self

        def __exit__(self, *_: object) -> None:
            ended.append(self.library)

        def start(self) -> dict[str, Any]:
            return {"gpu": "a GPU", "creators": [{"name": name} for name in self.plugins]}

        def ask(self, index: int, what: str, call: KernelCall) -> dict[str, Any]:
            assert (index, what) == (0, calls.CALL)
            (call.folder / "0").write_bytes(np.float32([len(self.plugins[0])]).tobytes())
            return {"outputs": [{"dtype": "float32", "shape": [1]}]}

    monkeypatch.setattr(calls, "LibraryWorker", Worker)
    one, two = Path("one.so"), Path("three.so")
    with KernelsByPlugin({"One": one, "Three": two}, 7.0) as kernels:
        assert began == []  # a child starts when it is needed
        for plugin in ("Three", "One", "Three"):
            assert kernels.call(plugin, KernelCall({}, (), tmp_path))[0].tolist() == [len(plugin)]
        assert began == [two, one]
    assert ended == [one, two]


def test_plugin_commands_take_their_cases_and_libraries_from_definitions(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = package / "lib" / LIBRARY
    assert main(["plugin", "test", str(library), "--no-gpu", "--ops", str(package)]) == 0
    known = capsys.readouterr().out
    assert main(["plugin", "test", str(library), "--no-gpu"]) == 0
    assert "no case is known" in capsys.readouterr().out and "no case is known" not in known
    assert main(["plugin", "bench", "LogOdds", "--ops", str(package)]) == 2
    said = capsys.readouterr().err
    assert "there is no operator 'LogOdds' to time" in said and "ChannelMixing" in said

    asked: list[Path] = []
    monkeypatch.setattr(
        "trtsmith.converter.plugin.replay.replay", lambda case, path, timeout_s: asked.append(path)
    )
    node = '[n] y = trtsmith.LogOdds <plugin_version = "1", plugin_namespace = "trtsmith"> (p)'
    written(tmp_path / "node.onnx", f"(float[2] p) => (float[2] y) {{ {node} }}")
    for name, array in (("inputs", {"p": np.float32([0.2, 0.4])}), ("expected", {"y": np.float32([0, 0])})):
        np.savez(tmp_path / f"{name}.npz", **array)
    assert main(["plugin", "replay", str(tmp_path), "--ops", str(package)]) == 2  # there is no GPU
    assert asked == [library]
    assert plugin_replay.no_gpu("run the kernel on").problems[0].what in capsys.readouterr().err
