"""A Triton model repository: its configuration follows Triton's own protobuf schema."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from trtsmith.converter.base.errors import UsageError
from trtsmith.converter.engine.bundle import triton
from trtsmith.converter.engine.bundle.bundle import file_digest, manifest_path
from trtsmith.converter.engine.bundle.triton import write_model
from trtsmith.converter.engine.bundle.triton_config import TritonOptions


def _schema() -> Any:
    """model_config.proto as tritonclient carries it; its package would import gRPC."""
    package = importlib.util.find_spec("tritonclient")
    assert package is not None and package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCHEMA = _schema()


def tensor(name: str, shape: list[int], dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape, "is_shape_tensor": False} | more


def sizes(low: list[int], usual: list[int], high: list[int], *, values: bool = False) -> dict[str, Any]:
    return {"min": low, "opt": usual, "max": high, "values": values}


IMAGES = {
    "inputs": [tensor("images", [-1, 3, -1, 64]), tensor("scale", [-1], "float16")],
    "outputs": [tensor("boxes", [-1, 100, 4], "bfloat16"), tensor("count", [-1], "int64")],
    "profiles": [
        {"images": sizes([1, 3, 32, 64], [4, 3, 64, 64], [8, 3, 96, 64]), "scale": sizes([1], [4], [8])}
    ],
}
RTX = {"flavour": "tensorrt_rtx", "version": "1.7.1"}
FIXED = {"inputs": [tensor("x", [2, 3])], "outputs": [tensor("y", [], "bool")], "profiles": []}


def engine(folder: Path, facts: dict[str, Any], **more: Any) -> Path:
    path = folder / "model.plan"
    path.write_bytes(b"an engine")
    document = {
        "tensorrt": {"flavour": "tensorrt", "version": "10.16.1.11"},
        "targets": ["sm86"],
        "plugins": [],
        "plugins_embedded": False,
        "io_types": [],
        "files": {path.name: file_digest(path)},
    }
    manifest_path(path).write_text(json.dumps(document | facts | more))
    return path


def options(tmp_path: Path, **more: Any) -> TritonOptions:
    return TritonOptions(tmp_path / "models", **({"name": "detector"} | more))


def config(model: triton.BundledEngine) -> Any:
    return text_format.Parse((model.path / "config.pbtxt").read_text(), SCHEMA.ModelConfig())


def test_requests_are_joined_along_a_dynamic_first_dimension(tmp_path: Path) -> None:
    model = write_model(engine(tmp_path, IMAGES), options(tmp_path, instances=2, queue_delay_us=250))
    assert model.engine.read_bytes() == b"an engine"
    assert sorted(str(p.relative_to(tmp_path / "models")) for p in (tmp_path / "models").rglob("*")) == [
        "detector", "detector/1", "detector/1/model.plan", "detector/config.pbtxt",
    ]  # fmt: skip
    found = config(model)
    assert (found.name, found.platform, found.backend) == ("detector", "tensorrt_plan", "tensorrt")
    assert found.default_model_filename == "model.plan" and found.max_batch_size == model.batch == 8
    assert [(i.name, SCHEMA.DataType.Name(i.data_type), list(i.dims)) for i in found.input] == [
        ("images", "TYPE_FP32", [3, -1, 64]), ("scale", "TYPE_FP16", [1]),
    ]  # fmt: skip
    assert [(o.name, SCHEMA.DataType.Name(o.data_type), list(o.dims)) for o in found.output] == [
        ("boxes", "TYPE_BF16", [100, 4]), ("count", "TYPE_INT64", [1]),
    ]  # fmt: skip
    assert found.input[1].HasField("reshape") and list(found.input[1].reshape.shape) == []
    assert not found.input[0].HasField("reshape")
    assert list(found.dynamic_batching.preferred_batch_size) == [4]
    assert found.dynamic_batching.max_queue_delay_microseconds == 250
    assert [(g.count, g.kind) for g in found.instance_group] == [(2, SCHEMA.ModelInstanceGroup.KIND_GPU)]
    assert any("--no-batching" in note for note in model.notes)
    asked = write_model(engine(tmp_path, IMAGES), options(tmp_path, name="asked", batching=True))
    assert asked.batch == 8 and not any("--no-batching" in note for note in asked.notes)


def test_without_a_batch_the_shapes_are_whole(tmp_path: Path) -> None:
    found = config(write_model(engine(tmp_path, IMAGES), options(tmp_path, batching=False)))
    assert found.max_batch_size == 0 and not found.HasField("dynamic_batching")
    assert [list(t.dims) for t in (*found.input, *found.output)] == [
        [-1, 3, -1, 64],
        [-1],
        [-1, 100, 4],
        [-1],
    ]
    found = config(write_model(engine(tmp_path, FIXED), options(tmp_path, name="fixed")))
    assert found.max_batch_size == 0 and list(found.input[0].dims) == [2, 3]
    assert list(found.output[0].dims) == [1] and found.output[0].HasField("reshape")


@pytest.mark.parametrize(
    "facts",
    [
        IMAGES | {"outputs": [tensor("all", [100, 4])]},
        IMAGES | {"profiles": [IMAGES["profiles"][0] | {"scale": sizes([1], [4], [4])}]},  # type: ignore[index,operator]
        IMAGES | {"profiles": [{n: sizes([2], [4], [8]) for n in ("images", "scale")}]},
        IMAGES | {"profiles": [{n: sizes([1], [1], [1]) for n in ("images", "scale")}]},
        IMAGES | {"profiles": [{n: sizes([1], [4], [8], values=True) for n in ("images", "scale")}]},
        IMAGES | {"inputs": [tensor("images", [-1], is_shape_tensor=True), tensor("scale", [-1])]},
        FIXED,
    ],
)
def test_what_is_no_batch_is_not_joined(tmp_path: Path, facts: dict[str, Any]) -> None:
    path = engine(tmp_path, facts)
    assert write_model(path, options(tmp_path)).batch == 0
    with pytest.raises(UsageError, match="cannot batch requests"):
        write_model(path, options(tmp_path, name="other", batching=True))


def test_shape_tensors_and_names_of_all_kinds(tmp_path: Path) -> None:
    names = ['a"b', "back\\slash", "zeilen\nende", "größe"]
    inputs = [tensor(name, [4], "int32", is_shape_tensor=True) for name in names]
    path = engine(tmp_path, FIXED | {"inputs": inputs})
    found = config(write_model(path, options(tmp_path)))
    assert [i.name for i in found.input] == names
    assert all(i.is_shape_tensor for i in found.input)


def test_embedded_plugins_are_allowed_on_the_command_line(tmp_path: Path) -> None:
    needed = {"plugins": ["trtsmith::MatrixInverse version 1"]}
    path = engine(tmp_path, FIXED, **needed, plugins_embedded=True)
    model = write_model(path, options(tmp_path))
    assert model.command.endswith("--backend-config=tensorrt,version-compatible=true")
    assert any("trust" in note for note in model.notes)
    with pytest.raises(UsageError, match="--embed-plugins"):
        write_model(engine(tmp_path, FIXED, **needed), options(tmp_path, name="other"))
    path = engine(tmp_path, FIXED, **needed)
    document = json.loads(manifest_path(path).read_text())
    del document["plugins_embedded"]  # an older manifest does not say
    manifest_path(path).write_text(json.dumps(document))
    with pytest.raises(UsageError, match="--embed-plugins"):
        write_model(path, options(tmp_path, name="other"))
    assert (
        "--backend-config"
        not in write_model(engine(tmp_path, FIXED), options(tmp_path, name="plain")).command
    )


def test_casts_are_told(tmp_path: Path) -> None:
    casts = [{"name": "x", "before": "uint16", "after": "int32"}]
    model = write_model(engine(tmp_path, FIXED, io_types=casts), options(tmp_path))
    assert any("'x' is int32 in the engine, uint16" in note for note in model.notes)


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (
            {"tensorrt": RTX, "inputs": [tensor("x", [1], "bfloat16")]},
            "Python backend has no type for bfloat16",
        ),
        ({"tensorrt": RTX, "files_more": {"libmine.so": "sha256:0"}}, "plugin library libmine.so is missing"),
        ({"files": {"model.plan": "sha256:0"}}, "belongs to another engine"),
        ({"inputs": [tensor("x", [1], "float8_e4m3fn")]}, "no type for float8_e4m3fn"),
        ({"inputs": None, "profiles": None}, ""),
    ],
)
def test_engines_that_a_server_would_not_run(tmp_path: Path, facts: dict[str, Any], word: str) -> None:
    path = engine(tmp_path, FIXED, **{k: v for k, v in facts.items() if v is not None})
    if "files_more" in facts:
        document = json.loads(manifest_path(path).read_text())
        document["files"] |= document.pop("files_more")
        manifest_path(path).write_text(json.dumps(document))
    if not word:
        document = json.loads(manifest_path(path).read_text())
        del document["profiles"]
        manifest_path(path).write_text(json.dumps(document))
        word = "KeyError: 'profiles'"
    with pytest.raises(UsageError, match=word):
        write_model(path, options(tmp_path))
    assert not (tmp_path / "models").exists()


def test_an_engine_of_tensorrt_rtx_lies_beside_what_the_python_backend_needs(tmp_path: Path) -> None:
    library = tmp_path / "libmine.so"
    library.write_bytes(b"plugins")
    path = tmp_path / "model.plan"
    casts = [{"name": "x", "before": "uint16", "after": "int32"}]
    engine(
        tmp_path,
        FIXED | {"inputs": [tensor("x", [2, 3], "int32")]},
        tensorrt=RTX,
        plugins=["Mine"],
        io_types=casts,
    )
    document = json.loads(manifest_path(path).read_text())
    document["files"][library.name] = file_digest(library)
    manifest_path(path).write_text(json.dumps(document))
    model = write_model(path, options(tmp_path))
    assert {p.name: p.read_bytes() for p in model.engine.parent.iterdir()} == {
        "model.plan": b"an engine",
        "model.manifest.json": manifest_path(path).read_bytes(),
        "model.py": Path(triton.__file__).with_name("triton_model.py").read_bytes(),
        "libmine.so": b"plugins",
    }
    found = config(model)
    assert (found.backend, found.platform, found.default_model_filename) == ("python", "", "model.py")
    assert SCHEMA.DataType.Name(found.input[0].data_type) == "TYPE_UINT16"
    assert model.command == f"tritonserver --model-repository={tmp_path / 'models'}"
    assert len(model.notes) == 1 and "trtsmith[gpu]" in model.notes[0] and "1.7.1" in model.notes[0]


def test_missing_and_broken_manifests(tmp_path: Path) -> None:
    path = engine(tmp_path, FIXED)
    manifest_path(path).write_text("[1]")
    with pytest.raises(UsageError, match="manifest cannot be read"):
        write_model(path, options(tmp_path))
    manifest_path(path).unlink()
    with pytest.raises(UsageError, match="no manifest beside the engine"):
        write_model(path, options(tmp_path))


def test_an_engine_that_is_gone_and_a_repository_that_is_a_file(tmp_path: Path) -> None:
    path = engine(tmp_path, FIXED)
    (tmp_path / "models").write_text("a file")
    with pytest.raises(UsageError, match="models is a file"):
        write_model(path, options(tmp_path))
    assert (tmp_path / "models").read_text() == "a file"
    path.unlink()
    with pytest.raises(UsageError, match="There is no such file"):
        write_model(path, options(tmp_path, name="other"))


def test_versions_share_a_configuration_and_are_not_replaced(tmp_path: Path) -> None:
    path = engine(tmp_path, FIXED)
    write_model(path, options(tmp_path))
    with pytest.raises(UsageError, match="exists already") as error:
        write_model(path, options(tmp_path))
    assert error.value.problems[0].fix == "--model-version 2, or --force to replace it"
    second = write_model(path, options(tmp_path, version=2))
    assert second.engine == tmp_path / "models" / "detector" / "2" / "model.plan" and second.engine.is_file()
    with pytest.raises(UsageError, match="another configuration"):
        write_model(path, options(tmp_path, version=3, instances=4))
    assert sorted(os.listdir(tmp_path / "models" / "detector")) == ["1", "2", "config.pbtxt"]


def test_force_replaces_its_version_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = engine(tmp_path, FIXED)
    for version in (1, 2):
        write_model(path, options(tmp_path, version=version))
    models = tmp_path / "models" / "detector"
    for version in (1, 2):
        (models / str(version) / "model.plan").write_bytes(b"old")
    (models / "1" / "stale.so").write_bytes(b"old")
    replaced = write_model(path, options(tmp_path), force=True)
    assert replaced.engine.read_bytes() == path.read_bytes() and os.listdir(models / "1") == ["model.plan"]
    assert (models / "2" / "model.plan").read_bytes() == b"old"
    assert os.listdir(tmp_path / "models") == ["detector"]

    rename = os.rename

    def failing(source: Path, target: Path) -> None:
        if target == models / "2" and source.name != "replaced":
            raise OSError("no room")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(UsageError, match="cannot be written"):
        write_model(path, options(tmp_path, version=2), force=True)
    assert (models / "2" / "model.plan").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "a\nb", "\x1b[2J", "\udcff"])
def test_names_stay_in_the_repository(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a folder name"):
        write_model(engine(tmp_path, FIXED), options(tmp_path, name=name))


def test_a_renamed_bundle_and_a_folder_with_blanks(tmp_path: Path) -> None:
    path = engine(tmp_path, FIXED)
    manifest_path(path).rename(tmp_path / "other.manifest.json")
    other = path.rename(tmp_path / "other.plan")
    asked = TritonOptions(tmp_path / "my models", "detector")
    assert shlex.split(write_model(other, asked).command)[1] == f"--model-repository={tmp_path / 'my models'}"


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(triton.os, "rename", fail)
    with pytest.raises(UsageError, match="No space left"):
        write_model(engine(tmp_path, FIXED), options(tmp_path))
    assert os.listdir(tmp_path / "models") == []
