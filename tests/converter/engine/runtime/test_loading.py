"""Messages for engines and libraries that cannot be loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeDevice, FakeTensorRT, flavour_of, log_of, mapped_when

from tests.converter.engine.problems import problem_of
from trtsmith.converter.engine.builder.gpu import Gpu
from trtsmith.converter.engine.runtime import device as device_module
from trtsmith.converter.engine.runtime.device import Device, DeviceError
from trtsmith.converter.engine.runtime.explain_failure import (
    EngineIdentity,
    kernel_problem,
    loading_problem,
    run_problem,
)
from trtsmith.converter.engine.runtime.loading import read_engine
from trtsmith.converter.engine.runtime.run_request import RunRequest
from trtsmith.converter.engine.runtime.runner import Runner

Open = Callable[..., Runner]


def test_what_an_engine_says(open_runner: Open, rtx: FakeTensorRT) -> None:
    info = open_runner(b"reshape", rtx).info
    assert (info.flavour, info.version, info.gpu, info.compute_capability) == (
        "tensorrt_rtx",
        "1.6.1.120",
        "Fake GPU",
        "9.0",
    )
    x, s = info.inputs
    assert (x.name, x.dtype, x.shape, x.is_shape_tensor) == ("x", "int32", (6,), False)
    assert x.profiles[0].min == x.profiles[0].max == (6,)
    assert s.is_shape_tensor and s.profiles[0].values and s.profiles[0].opt == (2, 3)
    assert [(y.name, y.shape) for y in info.outputs] == [("y", (-1, -1))]


@pytest.mark.parametrize("name", ["tensorrt", "rtx"])
def test_bytes_that_are_no_engine(open_runner: Open, name: str, request: pytest.FixtureRequest) -> None:
    text = problem_of(lambda: open_runner(b"text", request.getfixturevalue(name)))
    assert "is no engine of this TensorRT" in text and "magicTag" in text and "here is TensorRT" in text
    assert ("MALFORMED_ENGINE" in text) == (name == "rtx")


def test_engine_of_another_gpu(open_runner: Open, rtx: FakeTensorRT) -> None:
    rtx.error = lambda message: None  # type: ignore[method-assign]  # TensorRT-RTX says it in its diagnosis alone
    origin = EngineIdentity("m.plan", built_version="1.6.1.120", targets=("sm86",))
    text = problem_of(lambda: open_runner(b"other gpu", rtx, origin))
    assert "was built for another GPU" in text and "for sm86" in text and "Fake GPU (sm90)" in text


def test_engine_of_another_version_is_not_even_tried(open_runner: Open, rtx: FakeTensorRT) -> None:
    origin = EngineIdentity("m.plan", built_version="1.7.1.116")
    text = problem_of(lambda: open_runner(b"double", rtx, origin))
    assert "was built by tensorrt_rtx 1.7.1.116; here is TensorRT-RTX 1.6.1.120" in text
    assert "pip install tensorrt-rtx==1.7.1.116" in text
    assert open_runner(b"double", rtx, EngineIdentity("m.plan", built_version="1.6.1.99")).info.profiles == 2


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "The engine plan file is not compatible with this version of TensorRT, expecting 10.0",
            "another version",
        ),
        (
            "Serialization assertion stdVersionRead == serializationVersion failed. Version tag does not match",
            "version",
        ),
        (
            "The engine plan file is generated on an incompatible device, expecting compute 9.0 got 8.6",
            "another GPU",
        ),
        ("Plugin Creator not found for plugin Foo", "plugin that no library here has"),
        ("getPluginCreator could not find plugin: Foo version: 1", "plugin that no library here has"),
        ("Engine contains host code, and host code is not allowed", "--embedded-plugins"),
        ("Requested size was 123 bytes. CUDA out of memory", "not enough GPU memory to load the engine"),
        ("Something new", "damaged, or not an engine"),
    ],
)
def test_what_tensorrt_says_of_engines(said: str, words: str, tensorrt: FakeTensorRT) -> None:
    gpu = Gpu("L40", (8, 9))
    problem = loading_problem([said], "", EngineIdentity("m.plan"), flavour_of(tensorrt), gpu)
    assert words in str(problem) and said[:20] in problem.what and problem.where == "m.plan"


def test_files_that_are_too_short(tmp_path: Path) -> None:
    path = tmp_path / "m.plan"
    path.write_bytes(b"")
    assert "is not an engine: it has 0 bytes" in problem_of(lambda: read_engine(path))
    path.write_bytes(b"x" * 63)
    assert "63 bytes" in problem_of(lambda: read_engine(path))
    path.write_bytes(b"x" * 64)
    assert bytes(read_engine(path)) == b"x" * 64
    assert "cannot be read" in problem_of(lambda: read_engine(tmp_path / "none"))
    assert "cannot be read" in problem_of(lambda: read_engine(tmp_path))


@pytest.mark.parametrize("cached", [False, True])
def test_the_file_is_mapped_while_it_is_read_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: FakeDevice, rtx: FakeTensorRT, cached: bool
) -> None:
    """Nor copied: an engine of 2 GB would be in memory beside the weights that TensorRT made of it."""
    path = tmp_path / "m.plan"
    path.write_bytes(b"constant".ljust(100, b"."))
    found = mapped_when(path, monkeypatch)
    fake: Any = device
    cache = tmp_path if cached else None
    runner = Runner(RunRequest(path, runtime_cache=cache), fake, flavour_of(rtx), log_of(rtx))
    assert runner({})["y"].tolist() == [1, 2, 3]
    assert found == {"read": True, "context": False}


def test_types_and_formats_that_no_array_has(open_runner: Open) -> None:
    text = problem_of(lambda: open_runner(b"int4"))
    assert "type int4 of 'x'" in text and "'y' are in the format CHW32" in text


def test_no_memory_for_a_context(open_runner: Open, device: FakeDevice) -> None:
    runner = open_runner(b"double")
    device.capacity = 10
    text = problem_of(runner.session)
    assert "not enough GPU memory for an execution context" in text and "nvidia-smi" in text


def test_library_that_does_not_load(open_runner: Open, tmp_path: Path) -> None:
    library = tmp_path / "mine.so"
    library.write_bytes(b"no library")
    text = problem_of(lambda: open_runner(b"double", origin=EngineIdentity("m.plan", (library,))))
    assert "does not load" in text and str(library) in text


def test_faults_of_kernels() -> None:
    origin = EngineIdentity("m.plan", (Path("/a/mine.so"),))
    problem = kernel_problem(DeviceError("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"), origin)
    assert "ILLEGAL_ADDRESS" in problem.what and "/a/mine.so" in problem.where
    said = "Error Code 1: Cuda Runtime (an illegal memory access was encountered)"
    assert "A kernel of the engine failed" in run_problem([said], origin).what
    assert "not enough GPU memory" in kernel_problem(DeviceError("CUDA_ERROR_OUT_OF_MEMORY", ""), origin).what


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "find_gpu", lambda: None)
    assert "no NVIDIA GPU" in problem_of(Device)


def test_no_cuda_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    text = problem_of(Device)
    assert "cuda-core is not installed" in text and "pip install 'cuda-core" in text


TWO_COPIES = """
import shutil, sys
from pathlib import Path
from trtsmith.converter.engine.builder.flavour import load_flavour
from trtsmith.converter.engine.builder.plugins import registered
from trtsmith.converter.engine.libraries import plugin_library
from trtsmith.converter.engine.runtime.loading import load_plugins
from trtsmith.converter.engine.runtime.runtime_log import process_log

flavour = load_flavour("tensorrt_rtx")
builder = flavour.module.Builder(process_log(flavour).logger)
copy = shutil.copy(plugin_library(), Path(sys.argv[1]) / "copy.so")
for library in (plugin_library(), Path(copy)):
    load_plugins(flavour, [library], process_log(flavour))
    print(len(registered(flavour.module.get_plugin_registry())) > 30)
"""


def test_engines_of_two_bundles_have_each_its_copy_of_one_library(tmp_path: Path) -> None:
    """In the real registry, which refuses creators that it has."""
    done = subprocess.run([sys.executable, "-c", TWO_COPIES, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr
