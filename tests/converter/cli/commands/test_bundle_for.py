"""trtsmith convert --bundle-for, and the folder's script with a stand-in for trtexec.

No engine runs: the stand-in parses and builds the folder's graph with TensorRT-RTX for x86_64, and onnxruntime computes the
outputs. The plugin libraries in the folder are headers of ELF files for aarch64.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.converter.cli.commands.running import Cli, Ran, refused
from tests.converter.models import inverse, written
from tests.processes import checkout_environment
from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle import build_here
from trtsmith.converter.engine.bundle.device_folder import device_libraries
from trtsmith.converter.engine.bundle.run_from_bundle import request_for

DOUBLE = Path(__file__).resolve().parents[2] / "engine" / "bundle" / "trtexec_double.py"
SHAPES = "--shapes x=1x4x4:2x4x4:5x4x4"
FOR_ORIN = f"convert m.onnx --bundle-for orin --plugins-aarch64 w.whl {SHAPES}"


def wheel(path: Path, cuda13: str = "87-real 110-real", machine: int = 183) -> Path:
    """Of trtsmith, as far as a folder needs it: libraries with the head of an ELF file and what they say of their GPUs."""
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + machine.to_bytes(2, "little")
    with zipfile.ZipFile(path, "w") as archive:
        for place, gpus in (("", cuda13), ("cuda12/", "87-real")):
            for name in ("libtrtsmith_plugins.so", "libtrtsmith_plugins_v2.so", "libtrtsmith_host.so"):
                data = head + f'{{"cuda_architectures": "{gpus}", "operators": []}}'.encode()
                archive.writestr(f"trtsmith/converter/lib/{place}{name}", data)
    return path


def build_there(folder: Path, *words: str, error: float = 0.0) -> Ran:
    """The folder's script, as the device runs it."""
    trtexec = folder.parent / "trtexec"
    trtexec.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(DOUBLE))} "$@"\n')
    trtexec.chmod(0o755)
    command = [sys.executable, str(folder / "build_here.py"), "--trtexec", str(trtexec.resolve()), *words]
    environment = checkout_environment(DOUBLE_ERROR=error)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
def test_a_folder_is_built_run_and_compared_elsewhere(here: Path, cli: Cli) -> None:
    inverse(here / "m.onnx", ("n", 4, 4))
    wheel(here / "w.whl")
    ran = cli(f"{FOR_ORIN} --optimization-level 2 --use-dla-core 0 --sparsity enable --report r.json")
    assert ran.code == 0 and "python3 build_here.py" in ran.out and "it is built on sm87" in ran.out, ran
    folder = here / "m-orin"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    libraries = {f"cuda{n}/libtrtsmith_plugins{v}.so" for n in (12, 13) for v in ("", "_v2")}
    files = {"model.onnx", "model.manifest.json", "build_here.py", "inputs.npz", "expected.npz", "bounds.npz"}
    assert names == files | libraries
    device = json.loads((folder / "model.manifest.json").read_text())["device"]
    flags = ["--builderOptimizationLevel=2", "--sparsity=enable", "--useDLACore=0", "--allowGPUFallback"]
    assert device["build"][:5] == ["--stronglyTyped", *flags]
    assert device["run"] == ["--shapes=x:2x4x4"] and device["outputs"] == [{"name": "y", "relative": 0.002}]
    assert json.loads((here / "r.json").read_text())["engine"]["targets"] == ["sm87"]

    done = build_there(folder)
    assert done.code == 0 and "y: agrees\nevery output agrees" in done.out, done
    request = request_for(folder / "model.plan")  # from here on it is a bundle like any other
    assert (request.flavour, request.built_version, request.targets) == ("tensorrt", "10.3.0", ("sm87",))
    assert request.plugin_libraries == (folder / "libtrtsmith_plugins.so",)
    assert "building" not in build_there(folder, "--no-build").out
    wrong = build_there(folder, "--no-build", error=0.01)
    assert wrong.code == 3 and "y: disagrees: relative error 1.0e-02, allowed 0.002" in wrong.out, wrong
    (folder / "model.onnx").write_bytes(b"another")
    changed = build_there(folder)
    assert changed.code == 2 and "changed: model.onnx" in changed.err


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
def test_without_plugins_no_library_is_needed(here: Path, cli: Cli) -> None:
    text = (
        "(float[2, 8] x) => (int64[2, 1] best, float[2, 8] y) { best = ArgMax <axis = 1> (x) y = Relu (x) }"
    )
    written(here / "m.onnx", text)
    ran = cli("convert m.onnx --bundle-for thor -o there --rtol y:1e-3 --precision fp16")
    assert ran.code == 0, ran
    device = json.loads(Path("there/model.manifest.json").read_text())["device"]
    best = {"name": "best", "kind": "classes", "differing": 0.0}
    assert device["outputs"] == [best, {"name": "y", "rtol": 1e-3, "atol": 0.0}]
    assert device["build"] == ["--stronglyTyped"] and device["run"] == []
    assert build_there(here / "there").code == 0
    assert build_there(here / "there", "--no-build", error=0.01).code == 3
    manifest = Path("there/model.manifest.json")
    for accepted, error, code in ((False, 0.0, 4), (True, 0.0, 0), (False, 0.01, 3)):
        document = json.loads(manifest.read_text())
        document["device"]["outputs"][0] = {"name": "best", "left_out": "why", "accepted": accepted}
        manifest.write_text(json.dumps(document))
        assert build_there(here / "there", "--no-build", error=error).code == code


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--bundle-for xavier", 2, "its last JetPack has 8.5 at most"),
        ("--target xavier", 2, "its last JetPack has 8.5 at most"),
        ("--bundle-for l4", 2, "one of orin, thor, spark"),
        ("--bundle-for triton", 2, "`trtsmith bundle ENGINE --for triton`"),
        ("--bundle-for orin", 2, "make wheel PLATFORM=aarch64"),
        ("--bundle-for spark --plugins-aarch64 w.whl", 2, "with kernels for sm121"),
        ("--bundle-for orin --plugins-aarch64 m.onnx", 2, "the wheel cannot be read"),
        ("--bundle-for orin --no-verify", 2, "--no-verify"),
        ("--bundle-for orin --strip-plan", 2, "--strip-plan"),
        ("--bundle-for orin --target sm86", 2, "--target sm86"),
        ("--bundle-for orin -o full", 2, "full exists already"),
        ("--bundle-for orin -o none/there", 2, "mkdir -p none"),
    ],
)
def test_what_cannot_be_prepared_is_refused(words: str, code: int, said: str, here: Path, cli: Cli) -> None:
    inverse(here / "m.onnx")
    wheel(here / "w.whl")
    (here / "full").mkdir()
    (here / "full" / "file").touch()
    before = sorted(here.iterdir())
    refused(cli(f"convert m.onnx {words}"), code, said)
    assert sorted(here.iterdir()) == before


@pytest.mark.skipif(not importlib.util.find_spec("tensorrt_rtx"), reason="needs TensorRT-RTX")
def test_a_target_that_only_the_device_builds_for_names_the_flag(here: Path, cli: Cli) -> None:
    inverse(here / "m.onnx")
    refused(cli("convert m.onnx --target orin"), 2, "--bundle-for orin in the place of --target")


def test_libraries_are_for_the_device_alone(tmp_path: Path) -> None:
    both = {"cuda12", "cuda13"}
    assert {place.split("/")[0] for place in device_libraries("orin", wheel(tmp_path / "a.whl"))} == both
    assert {place.split("/")[0] for place in device_libraries("thor", wheel(tmp_path / "b.whl"))} == {
        "cuda13"
    }
    for_x86 = wheel(tmp_path / "c.whl", machine=62)
    with pytest.raises(UsageError, match="no plugin libraries for aarch64"):
        device_libraries("orin", for_x86)
    with pytest.raises(UsageError, match="is not trtsmith's"):
        device_libraries("orin", tmp_path / "a.whl", [Path("libyours.so")])


NAN = float("nan")


@pytest.mark.parametrize(
    ("entry", "expected", "found", "said"),
    [
        ({"differing": 0.0}, np.array([1, 2]), ([2], [1, 2]), ""),
        ({"differing": 0.0}, np.array([1, 2]), ([2], [1, 3]), "1 element differs, allowed 0"),
        ({"differing": 0.5}, np.array([1, 2]), ([2], [1, 3]), ""),
        ({"differing": 0.0}, np.array([1, 2]), ([1, 2], [1, 2]), "shape [1, 2], expected [2]"),
        ({"differing": 0.0}, np.array([1]), None, "no such output"),
        ({"rtol": 0.01, "atol": 0.0}, np.array([1.0, 2.0]), ([2], [1.009, 2.0]), ""),
        ({"rtol": 0.01, "atol": 0.0}, np.array([1.0, 2.0]), ([2], [1.02, 2.0]), "1 of 2 elements"),
        ({"relative": 0.1}, np.array([1.0, 2.0]), ([2], [1.1, 2.0]), ""),
        ({"relative": 0.01}, np.array([1.0, 2.0]), ([2], [1.1, 2.0]), "relative error 4.5e-02, allowed 0.01"),
        ({"relative": 0.1}, np.array([1.0, NAN]), ([2], [1.0, NAN]), ""),
        ({"relative": 0.1}, np.array([1.0, NAN]), ([2], [1.0, 2.0]), "NaN or infinities"),
        ({"relative": 0.1}, np.array([1.0, 2.0]), ([2], [1.0, NAN]), "NaN or infinities"),
        ({"relative": 0.1}, np.array([0.0, 0.0]), ([2], [0.0, 1.0]), "relative error"),
    ],
)
def test_outputs_are_held_to_their_limits(
    entry: dict[str, float], expected: np.ndarray, found: tuple[list[int], list[float]] | None, said: str
) -> None:
    read = None if found is None else (found[0], np.array(found[1]))
    why = build_here.difference(entry, expected, read, None)
    assert said in why and bool(said) is bool(why)


def test_elements_have_bounds_of_their_own() -> None:
    one = np.array([1.0, 100.0])
    for off, said in ((0.001, ""), (0.1, "1 of 2 elements")):
        why = build_here.difference(
            {"relative": 0.1}, one, ([2], one + np.array([off, 0.0])), np.array([0.01, 1.0])
        )
        assert said in why and bool(said) is bool(why)


def test_numbers_that_json_has_not_are_read() -> None:
    text = '[\n  { "name" : "a, nan"\n  , "dimensions" : "3"\n  , "values" : [ nan, -inf, 1e-05 ]\n  }\n, '
    text += '{ "name" : "n"\n  , "dimensions" : ""\n  , "values" : [ 7 ]\n  }\n]\n'
    found = build_here.read_outputs(text.replace("a, nan", "a"))
    assert found["a"][0] == [3] and np.array_equal(found["a"][1], [NAN, -np.inf, 1e-5], equal_nan=True)
    assert found["n"][0] == [] and found["n"][1].tolist() == [7]
