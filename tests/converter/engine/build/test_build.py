"""Builds with the real TensorRT-RTX, no GPU needed: plain models, refusals, and what becomes of the files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trtsmith.converter.engine.build.build import WORKER, build
from trtsmith.converter.engine.build.build_request import BuildRequest, BuildResult, PluginUse, Profile
from trtsmith.converter.engine.child.pool import Pool
from trtsmith.converter.model.errors import ConversionError, UsageError
from trtsmith.importers.fields import FieldValue

Dim = int | str | None


def save_model(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Dim]],
    outputs: dict[str, list[Dim]],
    initializers: dict[str, np.ndarray] | None = None,
    int64_inputs: tuple[str, ...] = (),
) -> Path:
    def info(name: str, shape: list[Dim]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(
            name, TensorProto.INT64 if name in int64_inputs else TensorProto.FLOAT, shape
        )

    graph = helper.make_graph(
        nodes,
        "g",
        [info(*item) for item in inputs.items()],
        [info(*item) for item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()],
    )
    domains = {node.domain for node in nodes} - {""}
    imports = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="m1"),
        helper.make_node("Relu", ["a"], ["y"], name="r1"),
    ]
    weights = {"w": np.eye(3, dtype=np.float32)}
    return save_model(tmp_path / "fixed.onnx", nodes, {"x": [2, 3]}, {"y": [2, 3]}, weights)


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    node = helper.make_node("Relu", ["x"], ["y"], name="r1")
    return save_model(tmp_path / "dynamic.onnx", [node], {"x": ["n", 3]}, {"y": ["n", 3]})


@pytest.fixture
def shape_input(tmp_path: Path) -> Path:
    node = helper.make_node("Reshape", ["x", "s"], ["y"], name="reshape1")
    inputs: dict[str, list[Dim]] = {"x": [2, 6], "s": [2]}
    return save_model(tmp_path / "shape.onnx", [node], inputs, {"y": [None, None]}, int64_inputs=("s",))


def request(model: Path, **options: object) -> BuildRequest:
    return BuildRequest(onnx_path=model, engine_path=model.parent / "out" / "m.plan", **options)  # type: ignore[arg-type]


def run(model: Path, **options: object) -> BuildResult:
    (model.parent / "out").mkdir(exist_ok=True)
    return build(request(model, **options))


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


def test_progress_names_the_phases(fixed: Path) -> None:
    said: list[str] = []
    (fixed.parent / "out").mkdir()
    build(request(fixed), said.append)
    phases = ["loading TensorRT", "parsing the model", "building the engine", "writing the engine"]
    assert [text for text in said if text in phases] == phases
    assert any(text.startswith("Building engine (") for text in said)


def test_one_worker_builds_many_and_hears_the_errors_of_each(fixed: Path, tmp_path: Path) -> None:
    def unknown(name: str) -> Path:
        node = helper.make_node(name, ["x"], ["y"], name=f"of_{name}", domain="nowhere")
        return save_model(tmp_path / f"{name}.onnx", [node], {"x": [2, 3]}, {"y": [2, 3]})

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
    options = {"workspace_mib": 64, "optimization_level": 2, "timing_cache": cache, "verbose": True}
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


def test_shape_tensor_input(shape_input: Path) -> None:
    with pytest.raises(UsageError, match=r"--values 's=\[1,1\]:\[1,1\]:\[8,8\]'"):
        run(shape_input)
    result = run(shape_input, profiles=({"s": Profile((1, 1), (3, 4), (12, 12))},))
    assert {tensor.name: tensor.is_shape_tensor for tensor in result.inputs} == {"x": False, "s": True}


def test_all_nodes_that_cannot_be_parsed_are_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], name="foo1", domain="bar"),
        helper.make_node("Det", ["a"], ["y"], name="det1"),
    ]
    model = save_model(tmp_path / "m.onnx", nodes, {"x": [3, 3]}, {"y": []})
    with pytest.raises(ConversionError) as error:
        run(model)
    foo, det = error.value.problems
    assert "node 'foo1' (Foo), number 0" in foo.where
    assert "nor a registered plugin" in foo.what
    assert "node 'det1' (Det), number 1" in det.where


@pytest.mark.parametrize("content", [b"", b"a text file, not a model\n", bytes(range(256)) * 8])
def test_files_that_are_no_models(tmp_path: Path, content: bytes) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(content)
    with pytest.raises(ConversionError, match="export or copy the model again"):
        run(model)
    assert os.listdir(tmp_path / "out") == []


def test_truncated_model(fixed: Path) -> None:
    fixed.write_bytes(fixed.read_bytes()[:-20])
    with pytest.raises(ConversionError, match="not a complete ONNX model"):
        run(fixed)


def test_external_data(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="m1")
    weights = {"w": np.ones((64, 64), np.float32)}
    model = save_model(tmp_path / "m.onnx", [node], {"x": [2, 64]}, {"y": [2, 64]}, weights)
    onnx.save(onnx.load(model), model, save_as_external_data=True, location="m.bin")
    assert run(model).size > 64 * 64 * 4
    os.truncate(tmp_path / "m.bin", 100)
    with pytest.raises(ConversionError, match="A weight could not be read"):
        run(model)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(ConversionError, match="copy the data files beside the model"):
        run(model)


def test_huge_input_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="r1")
    shape: list[Dim] = [2**30, 2**30, 2**20]
    model = save_model(tmp_path / "m.onnx", [node], {"x": shape}, {"y": shape})
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
    with pytest.raises(UsageError, match="pip install 'tensorrt"):
        run(fixed, flavour="tensorrt")


def test_user_folder_cannot_shadow_modules(fixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fixed.parent / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(fixed.parent)
    assert run(Path(fixed.name).absolute()).size > 0


def test_request_goes_through_json(tmp_path: Path) -> None:
    fields = (
        FieldValue("a", "int32", (1, -2)),
        FieldValue("b", "float32", (0.5,)),
        FieldValue("c", "string", "xy"),
    )
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
