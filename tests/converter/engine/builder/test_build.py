"""Builds with the real TensorRT-RTX, no GPU needed: plain models, refusals, and the resulting files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.builds import FLAVOUR, build_in_pool
from tests.converter.models import written
from trtsmith.converter.base.errors import ConversionError, UsageError
from trtsmith.converter.engine.builder.build import WORKER, build
from trtsmith.converter.engine.builder.build_request import BuildRequest, BuildResult, PluginUse, Profile
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.importers.fields import FieldValue

RELU = "[r1] y = Relu (x)"


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    text = "(float[2,3] x) => (float[2,3] y) { [m1] a = MatMul (x, w) [r1] y = Relu (a) }"
    return written(tmp_path / "fixed.onnx", text, {"w": np.eye(3, dtype=np.float32)})


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    return written(tmp_path / "dynamic.onnx", f"(float[n,3] x) => (float[n,3] y) {{ {RELU} }}")


def request(model: Path, **options: Any) -> BuildRequest:
    return BuildRequest(model, model.parent / "out" / "m.plan", **{"flavour": FLAVOUR, **options})


def run(model: Path, **options: Any) -> BuildResult:
    (model.parent / "out").mkdir(exist_ok=True)
    return build_in_pool(request(model, **options))


def test_fixed_model(fixed: Path) -> None:
    result = run(fixed)
    assert result.engine_path == fixed.parent / "out" / "m.plan"
    assert result.engine_path.stat().st_size == result.size > 1000
    assert (result.flavour, result.targets) == ("tensorrt_rtx", ("sm86",))
    (x,), (y,) = result.inputs, result.outputs
    assert (x.name, x.dtype, x.shape, x.mode) == ("x", "float32", (2, 3), "input")
    assert (y.name, y.mode) == ("y", "output")
    assert result.layers >= 2
    assert result.plugin_layers == ()
    assert os.listdir(result.engine_path.parent) == ["m.plan"]
    assert BuildResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_one_worker_builds_many_and_hears_the_errors_of_each(fixed: Path, tmp_path: Path) -> None:
    def unknown(name: str) -> Path:
        text = f"(float[2,3] x) => (float[2,3] y) {{ [of_{name}] y = nowhere.{name} (x) }}"
        return written(tmp_path / f"{name}.onnx", text)

    (tmp_path / "out").mkdir()
    with Pool(WORKER, flavour="tensorrt_rtx") as pool:
        first = build(request(fixed), pool=pool)
        for name in ("One", "Two"):
            with pytest.raises(ConversionError, match=name) as error:
                build(request(unknown(name)), pool=pool)
            assert f"of_{name}" in error.value.problems[0].where
        again = build(request(fixed), pool=pool)
    alone = build(request(fixed))
    assert replace(first, seconds=0) == replace(again, seconds=0) == replace(alone, seconds=0)


def test_dynamic_model_two_profiles_and_options(dynamic: Path, tmp_path: Path) -> None:
    profiles = ({"x": Profile((1, 3), (2, 3), (4, 3))}, {"x": Profile((5, 3), (8, 3), (9, 3))})
    cache = tmp_path / "timing.cache"
    options = {"workspace": 64, "optimization_level": 2, "timing_cache": cache, "verbose": True}
    result = run(dynamic, profiles=profiles, log_path=tmp_path / "build.log", **options)
    assert result.inputs[0].shape == (-1, 3)
    assert cache.stat().st_size > 0
    assert "Parsing node: r1 [Relu]" in (tmp_path / "build.log").read_text()
    cache.write_bytes(b"not a cache")
    run(dynamic, profiles=profiles, timing_cache=cache)
    assert cache.read_bytes() != b"not a cache"


def test_several_targets(fixed: Path) -> None:
    assert run(fixed, targets=("sm80", "sm86", "sm120")).targets == ("sm80", "sm86", "sm120")
    with pytest.raises(ConversionError, match=r"(?s)fp32 kernels.*leave sm75 out"):
        run(fixed, targets=("sm75", "sm86"))
    with pytest.raises(UsageError, match=r"(?s)cannot build for sm90.*--target sm90.*sm120.*H100"):
        run(fixed, targets=("sm90",))


def test_dynamic_input_without_sizes_gets_a_ready_flag(dynamic: Path) -> None:
    with pytest.raises(UsageError) as error:
        run(dynamic)
    (problem,) = error.value.problems
    assert "'x'" in problem.where
    assert problem.fix.startswith("--shapes x=1x3:1x3:8x3")


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({"x": Profile((1, 3, 1), (1, 3, 1), (1, 3, 1))}, "it has 2 dimensions"),
        ({"x": Profile((4, 3), (2, 3), (8, 3))}, "min <= opt <= max"),
        ({"x": Profile((1, 4), (2, 4), (8, 4))}, "fixed to 3"),
        ({"x": Profile((1, 3), (2, 3), (8, 3)), "z": Profile((1,), (1,), (1,))}, "no input 'z'"),
    ],
)
def test_sizes_that_do_not_fit(dynamic: Path, profile: dict[str, Profile], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(dynamic, profiles=(profile,))


def test_shape_tensor_input(tmp_path: Path) -> None:
    text = "(float[2,6] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }"
    shape_input = written(tmp_path / "shape.onnx", text)
    with pytest.raises(UsageError, match=r"--values 's=\[1,1\]:\[1,1\]:\[8,8\]'"):
        run(shape_input)
    result = run(shape_input, profiles=({"s": Profile((1, 1), (3, 4), (12, 12))},))
    assert {tensor.name: tensor.is_shape_tensor for tensor in result.inputs} == {"x": False, "s": True}


def test_all_nodes_that_cannot_be_parsed_are_named(tmp_path: Path) -> None:
    text = "(float[3,3] x) => (float y) { [foo1] a = bar.Foo (x) [det1] y = Det (a) }"
    model = written(tmp_path / "m.onnx", text)
    with pytest.raises(ConversionError) as error:
        run(model)
    foo, det = error.value.problems
    assert "node 'foo1' (Foo), number 0" in foo.where
    assert "nor a registered plugin" in foo.what
    assert "node 'det1' (Det), number 1" in det.where


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "export or copy the model again"),
        (b"a text file, not a model\n", "export or copy the model again"),
        (bytes(range(256)) * 8, "export or copy the model again"),
        (None, "not a complete ONNX model"),
    ],
)
def test_files_that_are_no_models(fixed: Path, content: bytes | None, says: str) -> None:
    fixed.write_bytes(fixed.read_bytes()[:-20] if content is None else content)
    with pytest.raises(ConversionError, match=says):
        run(fixed)
    assert os.listdir(fixed.parent / "out") == []


def test_external_data(tmp_path: Path) -> None:
    text = "(float[2,64] x) => (float[2,64] y) { y = MatMul (x, w) }"
    model = written(tmp_path / "m.onnx", text, {"w": np.ones((64, 64), np.float32)})
    onnx.save(onnx.load(model), model, save_as_external_data=True, location="m.bin")
    assert run(model).size > 64 * 64 * 4
    os.truncate(tmp_path / "m.bin", 100)
    with pytest.raises(ConversionError, match="A weight could not be read"):
        run(model)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(ConversionError, match="copy the data files beside the model"):
        run(model)


def test_huge_input_is_refused(tmp_path: Path) -> None:
    shape = f"float[{2**30},{2**30},{2**20}]"
    model = written(tmp_path / "m.onnx", f"({shape} x) => ({shape} y) {{ {RELU} }}")
    with pytest.raises(ConversionError, match=r"too large|TensorRT says"):
        run(model)


def test_failure_keeps_the_engine_that_was_there(dynamic: Path) -> None:
    folder = dynamic.parent / "out"
    folder.mkdir()
    (folder / "m.plan").write_bytes(b"older engine")
    with pytest.raises(UsageError):
        run(dynamic)
    assert (folder / "m.plan").read_bytes() == b"older engine"
    assert os.listdir(folder) == ["m.plan"]


def test_success_replaces_the_engine_that_was_there(fixed: Path) -> None:
    folder = fixed.parent / "out"
    folder.mkdir()
    (folder / "m.plan").write_bytes(b"older engine")
    assert run(fixed).size == (folder / "m.plan").stat().st_size
    assert os.listdir(folder) == ["m.plan"]


def test_paths_are_checked_first(fixed: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        build(BuildRequest(tmp_path / "none.onnx", tmp_path / "no" / "m.plan", (tmp_path / "none.so",)))
    assert len(error.value.problems) == 3
    with pytest.raises(UsageError, match="is a folder"):
        build(BuildRequest(fixed, tmp_path))


def test_flavour_that_is_not_installed(fixed: Path) -> None:
    (fixed.parent / "out").mkdir()
    with pytest.raises(UsageError, match="pip install 'tensorrt"):
        build(request(fixed, flavour="tensorrt"))


def test_user_folder_cannot_shadow_modules(fixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fixed.parent / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(fixed.parent)
    (fixed.parent / "out").mkdir()
    assert build(request(Path(fixed.name).absolute())).size > 0


def test_request_goes_through_json(tmp_path: Path) -> None:
    given = {"a": ("int32", (1, -2)), "b": ("float32", (0.5,)), "c": ("string", "xy")}
    fields = tuple(FieldValue(name, *rest) for name, rest in given.items())
    whole = BuildRequest(
        onnx_path=tmp_path / "m.onnx",
        engine_path=tmp_path / "m.plan",
        plugin_libraries=(tmp_path / "p.so",),
        plugins=(PluginUse("n", "P", "1", "ns", fields),),
        profiles=({"x": Profile((1,), (2,), (3,))},),
        targets=("sm86",),
        timing_cache=tmp_path / "cache",
        timeout_s=2.5,
    )
    assert BuildRequest.from_json(whole.to_json()) == whole
