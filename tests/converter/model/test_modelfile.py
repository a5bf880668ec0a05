"""Reading and writing model files: nothing is lost, no weights are read, nothing invalid is accepted."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper as oh
from onnx import numpy_helper as onh

from tests.converter.model.builders import (
    ALL_DTYPES,
    SIZE,
    add_model,
    external_tensor,
    grown,
    rich_model,
    run_python,
    save_external,
    weight,
    with_initializer,
)
from trtsmith.converter.base.errors import ConversionError, TrtsmithError, UsageError
from trtsmith.converter.model.check import iter_tensors
from trtsmith.converter.model.load import Model, load_model, save_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.model.weights import MappedFile
from trtsmith.converter.model.wire import encode_varint
from trtsmith.converter.rewrite.custom_ops.graphsurgeon import dtype_of, from_gs, to_gs


def tensors_of(model: Model) -> dict[str, np.ndarray]:
    return {where: model.array(tensor) for where, tensor in ((w, t) for t, w in iter_tensors(model.proto))}


def onnx_tensors(path: Path) -> dict[str, np.ndarray]:
    """The same by onnx's own reader."""
    return {where: onh.to_array(tensor) for tensor, where in iter_tensors(onnx.load(path))}


def assert_bit_equal(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    for where, value in expected.items():
        assert actual[where].dtype == value.dtype, where
        assert actual[where].shape == value.shape, where
        assert actual[where].tobytes() == value.tobytes(), where


@pytest.fixture(params=["inside", "external"])
def rich_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "rich.onnx"
    if request.param == "external":
        return save_external(rich_model(), path)
    onnx.save(rich_model(), path)
    return path


# Round trips


def test_skeleton_holds_no_weights(rich_path: Path) -> None:
    model = load_model(rich_path)
    assert len(model.proto.SerializeToString()) < 4000 < 5 * 4 * SIZE
    large = [tensor for tensor, _ in iter_tensors(model.proto) if tensor.dims == [SIZE]]
    assert len(large) == 5
    for tensor in large:
        values = model.array(tensor)
        assert not values.flags.owndata
        assert not values.flags.writeable


@pytest.mark.parametrize("inline_limit", [1 << 30, 0], ids=["into one file", "beside it"])
def test_save_round_trip(rich_path: Path, tmp_path: Path, inline_limit: int) -> None:
    out = tmp_path / "out" / "again.onnx"
    out.parent.mkdir()
    save_model(load_model(rich_path), out, inline_limit=inline_limit)
    onnx.checker.check_model(str(out))
    assert_bit_equal(onnx_tensors(out), onnx_tensors(rich_path))
    assert_bit_equal(tensors_of(load_model(out)), onnx_tensors(rich_path))
    files = {"again.onnx"} if inline_limit else {"again.onnx", "again.onnx.data"}
    assert {file.name for file in out.parent.iterdir()} == files


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("touch", [False, True], ids=["untouched", "read"])
def test_every_dtype_through_graphsurgeon(tmp_path: Path, dtype: object, touch: bool) -> None:
    values = weight(dtype, size=4096)
    onnx.save(add_model({"w": values, "v": values[:4].copy()}), tmp_path / "a.onnx")
    model = load_model(tmp_path / "a.onnx")
    graph = to_gs(model)
    constants = {t.name: t for node in graph.nodes for t in node.inputs if t.name in ("w", "v")}
    assert dtype_of(constants["w"]) == dtype_of(constants["v"]) == np.dtype(dtype)
    if touch:
        assert constants["w"].values.tobytes() == values.tobytes()
        assert constants["v"].values.tobytes() == values[:4].tobytes()
    again = from_gs(graph, model)
    assert again.proto.graph.initializer[0].external_data == model.proto.graph.initializer[
        0
    ].external_data or (
        touch and values.dtype in (ml_dtypes.int4, ml_dtypes.uint4)  # unpacked to be read, so written anew
    )
    save_model(again, tmp_path / "b.onnx")
    assert_bit_equal(onnx_tensors(tmp_path / "b.onnx"), onnx_tensors(tmp_path / "a.onnx"))


def test_typed_data(tmp_path: Path) -> None:
    model = add_model(
        {"f": weight(np.float32), "d": weight(np.float64), "i": weight(np.int64), "h": weight(np.float16)}
    )
    for tensor in model.graph.initializer:
        values = onh.to_array(tensor)
        tensor.CopyFrom(oh.make_tensor(tensor.name, tensor.data_type, values.shape, values))
        assert not tensor.raw_data
    onnx.save(model, tmp_path / "a.onnx")
    loaded = load_model(tmp_path / "a.onnx")
    assert_bit_equal(tensors_of(loaded), onnx_tensors(tmp_path / "a.onnx"))
    owned = {tensor.name: not tensor.external_data for tensor in loaded.proto.graph.initializer}
    assert owned == {"f": False, "d": False, "i": True, "h": True}
    save_model(loaded, tmp_path / "b.onnx")
    assert_bit_equal(onnx_tensors(tmp_path / "b.onnx"), onnx_tensors(tmp_path / "a.onnx"))


def test_one_external_file_for_each_tensor(tmp_path: Path) -> None:
    model = add_model({f"w{i}": weight(np.float32, i, 300) for i in range(700)})
    apart = {"save_as_external_data": True, "all_tensors_to_one_file": False, "size_threshold": 0}
    onnx.save_model(model, tmp_path / "a.onnx", **apart)
    script = """
        import resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        from trtsmith.converter.model.load import load_model
        print(len(load_model(sys.argv[1]).files))
    """
    assert run_python(script, tmp_path / "a.onnx") == "701"


def test_files_of_graphs_that_nobody_needs_are_closed_when_descriptors_run_out(tmp_path: Path) -> None:
    onnx.save(add_model({"w": weight(np.float32, 0, 300)}), tmp_path / "a.onnx")
    script = """
        import gc, resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        from trtsmith.converter.graph.graph import Graph
        from trtsmith.converter.model.load import load_model
        gc.disable()
        for _ in range(300):
            print(len([*Graph(load_model(sys.argv[1])).nodes()]))
    """
    assert run_python(script, tmp_path / "a.onnx").split() == ["1"] * 300


# Through GraphSurgeon


def test_graphsurgeon_keeps_the_model(rich_path: Path, tmp_path: Path) -> None:
    model = load_model(rich_path)
    before = model.proto.SerializeToString(deterministic=True)
    again = from_gs(to_gs(model), model)
    assert model.proto.SerializeToString(deterministic=True) == before
    for field in ("ir_version", "producer_name", "model_version", "domain", "doc_string"):
        assert getattr(again.proto, field) == getattr(model.proto, field), field
    for field in ("opset_import", "metadata_props"):
        assert list(getattr(again.proto, field)) == list(getattr(model.proto, field)), field
    assert list(again.proto.graph.value_info) == list(model.proto.graph.value_info)
    assert again.proto.graph.doc_string == "a graph"
    assert again.proto.graph.node[0].doc_string == "chooses"
    assert_bit_equal(
        tensors_of(again), tensors_of(model)
    )  # the same places too: no copy of `shared` in a branch
    save_model(again, tmp_path / "again.onnx")
    onnx.checker.check_model(str(tmp_path / "again.onnx"), full_check=True)


def test_graphsurgeon_keeps_what_it_has_no_words_for(tmp_path: Path) -> None:
    node = oh.make_node(
        "Custom", ["x"], ["y"], name="custom", domain="d", blob=b"\xff\xfe\x00", tensors_like=[1]
    )
    node.attribute.extend(
        [
            onnx.AttributeProto(name="none_i", type=onnx.AttributeProto.INTS),
            onnx.AttributeProto(name="none_f", type=onnx.AttributeProto.FLOATS),
            oh.make_attribute("many", [onh.from_array(weight(np.float32)), onh.from_array(weight(np.int8))]),
            oh.make_attribute("type", oh.make_tensor_type_proto(1, [2])),
        ]
    )
    node.metadata_props.add(key="k", value="v")
    node.overload = "o"
    sequence = oh.make_tensor_sequence_value_info("y", 1, [2])
    graph = oh.make_graph([node], "g", [oh.make_tensor_value_info("x", 1, ["n", 2])], [sequence])
    proto = oh.make_model(
        graph, opset_imports=[oh.make_opsetid("", 20), oh.make_opsetid("d", 3)], ir_version=13
    )
    onnx.save(proto, tmp_path / "a.onnx")
    model = load_model(tmp_path / "a.onnx")
    gs_graph = to_gs(model)
    assert gs_graph.nodes[0].attrs["none_i"] == []
    again = from_gs(gs_graph, model).proto
    assert sorted(again.graph.node[0].attribute, key=lambda a: a.name) == sorted(
        model.proto.graph.node[0].attribute, key=lambda a: a.name
    )
    for field in ("metadata_props", "overload", "input", "output"):
        assert getattr(again.graph.node[0], field) == getattr(node, field)
    assert again.graph.output[0] == sequence
    assert again.ir_version == 13
    assert gs_graph.ir_version == 10
    assert list(again.opset_import) == list(proto.opset_import)
    assert from_gs(gs_graph, model).proto == again  # exporting did not change the graph


def test_views_of_weights_stay_references(tmp_path: Path) -> None:
    onnx.save(add_model({"w": weight(np.float32).reshape(10, 100)}), tmp_path / "a.onnx")
    model = load_model(tmp_path / "a.onnx")
    graph = to_gs(model)
    constant = graph.nodes[0].inputs[1]
    original = constant.values.copy()
    with pytest.raises(ValueError, match="read-only"):
        constant.values[0] = 0
    constant.values = constant.values[2:8].reshape(600)
    (tensor,) = from_gs(graph, model).proto.graph.initializer
    assert not tensor.raw_data
    assert np.array_equal(model.array(tensor), original[2:8].reshape(600))
    constant.values = original.T  # not contiguous and not in the file: written as data
    (tensor,) = from_gs(graph, model).proto.graph.initializer
    assert np.array_equal(onh.to_array(tensor), original.T)


def test_copies_of_a_constant_get_their_own_names(tmp_path: Path) -> None:
    onnx.save(add_model({"w": weight(np.float32)}), tmp_path / "a.onnx")
    model = load_model(tmp_path / "a.onnx")
    graph = to_gs(model)
    twin = graph.nodes[0].inputs[1].copy()
    twin.name = "twin"
    graph.nodes[0].inputs[0] = twin
    assert [t.name for t in from_gs(graph, model).proto.graph.initializer] == ["twin", "w"]


# Memory


ROUND_TRIP = """
    from trtsmith.converter.model.load import load_model, save_model
    from trtsmith.converter.rewrite.custom_ops.graphsurgeon import from_gs, to_gs
    begin()
    model = load_model(sys.argv[1])
    save_model(from_gs(to_gs(model), model), sys.argv[2], inline_limit=int(sys.argv[3]))
    end()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize(
    ("external", "inline_limit"), [(False, 1 << 31), (True, 0)], ids=["in one file", "beside it"]
)
def test_memory_stays_flat(tmp_path: Path, external: bool, inline_limit: int) -> None:
    count, side = 50, 1000  # 200 MB
    values = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    model = add_model({f"w{i}": values for i in range(count)})
    save_external(model, tmp_path / "a.onnx") if external else onnx.save(model, tmp_path / "a.onnx")
    megabytes = count * side * side * 4 / 2**20
    anonymous, high_water = grown(ROUND_TRIP, tmp_path / "a.onnx", tmp_path / "b.onnx", inline_limit)
    assert anonymous < 0.05 * megabytes
    # This counts file pages as well, which the kernel shares and drops as it likes; looking at a tensor's
    # header maps the whole block of the page cache (2 MB) that it lies in.
    assert high_water < 1.1 * megabytes
    size = sum(file.stat().st_size for file in tmp_path.glob("b.onnx*"))
    assert size >= megabytes * 2**20


# Bad input


def refuse(path: Path, kind: type[TrtsmithError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        load_model(path)
    for problem in caught.value.problems:
        assert all(part and "\n" not in part for part in problem.to_json().values()), problem
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    refuse(tmp_path / "none.onnx", UsageError, "does not exist", "check the path")
    (tmp_path / "detector.onnx").touch()
    refuse(tmp_path / "detectr.onnx", UsageError, "does not exist", f"did you mean {tmp_path}/detector.onnx?")
    refuse(tmp_path / "detector.onn", UsageError, "does not exist", f"did you mean {tmp_path}/detector.onnx?")
    refuse(tmp_path / "none" / "none.onnx", UsageError, "does not exist")
    refuse(tmp_path, UsageError, "folder")
    refuse(Path("/dev/null"), UsageError, "not a regular file")
    refuse(Path("a\0b"), UsageError, "cannot be opened")
    refuse(Path("n" * 5000), UsageError, "cannot be opened")
    os.mkfifo(tmp_path / "fifo.onnx")
    refuse(tmp_path / "fifo.onnx", UsageError, "not a regular file")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_external(rich_model(), tmp_path / "a.onnx")
    real_open = os.open

    def deny(name: str) -> None:  # permissions proper do not stop root
        def opened(file: os.PathLike[str], *args: int) -> int:
            if Path(file).name == name:
                raise PermissionError(13, "Permission denied")
            return real_open(file, *args)

        monkeypatch.setattr(os, "open", opened)

    deny("a.onnx")
    refuse(path, UsageError, "permission denied")
    deny("weights.bin")
    refuse(path, ConversionError, "'weights.bin' cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"Dear all,\nthis is a letter.\n" * 100, "not an ONNX model"),
        (random.Random(1).randbytes(100_000), "not an ONNX model"),
        (b"\x89PNG\r\n\x1a\n" + bytes(1000), "not an ONNX model"),
        (b"\x80" * 10_000, "not an ONNX model"),  # one endless number
        (b"\x3a" + b"\xff" * 9 + b"\x01" + bytes(100), "not an ONNX model"),  # a graph of 2^64 bytes
        (b"\x08\x0a\x3a\xff\xff\xff\xff\x07", "truncated"),
        (b"\x00" * 100, "not an ONNX model"),
    ],
)
def test_not_a_model(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "a.onnx").write_bytes(content)
    refuse(tmp_path / "a.onnx", ConversionError, word)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"vtrt" + bytes(60), "a TensorRT engine"),
        (b"ftrt" + bytes(60), "a TensorRT engine"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
        (b"\x18\x00\x00\x00ORTM" + bytes(60), "a model in onnxruntime's own format"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(60), "a TensorFlow Lite model"),
        (b"\x89HDF\r\n\x1a\n" + bytes(60), "an HDF5 file"),
        (b"PK\x03\x04" + bytes(60), "a zip archive"),
        (pickle.dumps({"w": 1.0}, protocol=2), "a pickle"),
        (b'\x20\x00\x00\x00\x00\x00\x00\x00{"w":{"dtype":"F32"}}', "a safetensors file"),
        (b"<!DOCTYPE html><html>Not Found</html>", "a web page"),
        (b'<?xml version="1.0"?><net name="a"></net>', "XML, as OpenVINO writes"),
        (b"epochs: 3\r\n\tlr: 0.1\n", "text"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "a.onnx").write_bytes(content)
    refuse(tmp_path / "a.onnx", ConversionError, f"The file is {word}")


@pytest.mark.parametrize("new", [True, False])
def test_weights_alone_name_the_function_to_write(tmp_path: Path, new: bool) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.zeros(3)}, tmp_path / "net.pth", _use_new_zipfile_serialization=new)
    refuse(tmp_path / "net.pth", ConversionError, "weights have no graph", "name net.py:FUNCTION")


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_pickled_module_names_the_function_that_loads_it(tmp_path: Path, new: bool, wrapped: bool) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.ReLU())
    saved = {"model": module, "epoch": 3} if wrapped else module
    torch.save(saved, tmp_path / "net.pt", _use_new_zipfile_serialization=new)
    refuse(tmp_path / "net.pt", ConversionError, "The file is a pickle of a module", "weights_only=False)")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_names_the_exporter_that_takes_it(tmp_path: Path) -> None:
    """Which does write a model that can be loaded."""
    torch = pytest.importorskip("torch")
    x = torch.ones(1, 3)
    torch.jit.trace(torch.nn.ReLU(), x).save(tmp_path / "net.pt")
    refuse(
        tmp_path / "net.pt", ConversionError, "The file is TorchScript", "torch.onnx.export(torch.jit.load('"
    )
    torch.onnx.export(torch.jit.load(tmp_path / "net.pt"), (x,), tmp_path / "net.onnx", dynamo=False)
    assert [node.op_type for node in load_model(tmp_path / "net.onnx").proto.graph.node] == ["Relu"]


@pytest.mark.parametrize(("name", "word"), [("net.py", "Python source"), ("in.npz", "an archive of arrays")])
def test_a_file_of_another_suffix_is_named(tmp_path: Path, name: str, word: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 or whatever")
    refuse(tmp_path / name, ConversionError, f"The file is {word}")


def test_nested_too_deep(tmp_path: Path) -> None:
    graph = oh.make_graph([], "g" * 2000, [], []).SerializeToString()
    for _ in range(60):
        attribute = b"\x0a\x01g" + wire(6, graph) + b"\xa0\x01\x05"
        graph = wire(1, wire(5, attribute))
    (tmp_path / "a.onnx").write_bytes(b"\x08\x0a" + wire(7, graph) + wire(8, b"\x10\x14"))
    refuse(tmp_path / "a.onnx", ConversionError, "nested more than 100 deep")


def wire(number: int, body: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(body)) + body


def first(model: onnx.ModelProto) -> onnx.TensorProto:
    return model.graph.initializer[0]


def sparse(model: onnx.ModelProto) -> None:
    made = model.graph.sparse_initializer.add(dims=[SIZE])
    made.values.CopyFrom(external_tensor("s", (2,), location="/etc/passwd"))
    made.indices.CopyFrom(onh.from_array(np.array([1, 2])))


def holding(model: onnx.ModelProto, dims: list[int], data: bytes | None = None) -> None:
    first(model).dims[:] = dims
    if data is not None:
        first(model).raw_data = data


def two_weights() -> onnx.ModelProto:
    return add_model({"w": weight(np.float32), "v": weight(np.float32)})


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda model: model.ClearField("graph"), "no graph"),
        (lambda model: model.ClearField("opset_import"), "imports no opset"),
        (lambda model: model.ClearField("ir_version"), "IR version is missing"),
        (lambda model: setattr(model, "ir_version", 99), "IR version is 99"),
        (lambda model: setattr(model.opset_import[0], "version", 999), "opset 999"),
        (lambda model: setattr(model.opset_import[0], "domain", "custom"), "imports no ONNX opset"),
        (lambda model: model.opset_import.add(domain="ai.onnx", version=19), "opset 20 and 19"),
        (lambda model: setattr(model.graph.initializer[1], "name", "w"), "Two initializers are called 'w'"),
        (lambda model: setattr(first(model), "name", ""), "no name"),
        (lambda model: holding(model, [SIZE], first(model).raw_data[:-1]), "3999 bytes long"),
        (lambda model: holding(model, [SIZE], first(model).raw_data[:100]), "100 bytes long"),
        (lambda model: holding(model, [2**40, 2**40]), "more than any machine"),
        (lambda model: holding(model, [2**40, 2**40, 0], b""), "more than any machine"),
        (lambda model: holding(model, [-1, -1000]), "none negative"),
        (lambda model: first(model).ClearField("raw_data"), "0 values in float_data"),
        (lambda model: setattr(first(model), "data_type", 0), "data type is UNDEFINED"),
        (lambda model: setattr(first(model), "data_type", 99), "data type is 99"),
        (lambda model: first(model).float_data.append(1), "raw data beside typed data"),
        (lambda model: setattr(model.graph.output[0].type.tensor_type, "elem_type", 45), "data type 45"),
        (sparse, "sparse tensor has external data"),
        (lambda model: model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=2**60), "that a machine can hold"),
    ],
)  # fmt: skip
def test_unsound_model(tmp_path: Path, change: Callable[[onnx.ModelProto], object], word: str) -> None:
    model = two_weights()
    change(model)
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    refuse(tmp_path / "a.onnx", ConversionError, word, "a.onnx")


def test_all_problems_at_once(tmp_path: Path) -> None:
    model = two_weights()
    for tensor in model.graph.initializer:
        tensor.dims[:] = [7]
    (tmp_path / "a.onnx").write_bytes(model.SerializeToString())
    refuse(tmp_path / "a.onnx", ConversionError, "initializer 'w'", "initializer 'v'")


def test_axes_of_a_transpose_are_counted_from_the_front(tmp_path: Path) -> None:
    """Also in a subgraph; onnxruntime opens it then. An axis that is none is left for the checks."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[2,3,4] x) => (float[2,4,3] y, float[3,4,2] z) {
        y = If (c) <
            then_branch = a () => (float[2,4,3] p) { p = Transpose <perm = [0, -1, -2]> (x) },
            else_branch = b () => (float[2,4,3] q) { q = Transpose <perm = [0, 2, 1]> (x) }>
        z = Transpose <perm = [-2, 2, -3]> (x) }"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = run(load_model(path), {"c": np.array(True), "x": x})
    np.testing.assert_array_equal(found["y"], x.transpose(0, 2, 1))
    np.testing.assert_array_equal(found["z"], x.transpose(1, 2, 0))
    onnx.save(onnx.parser.parse_model(text.replace("[-2, 2, -3]", "[-4, 2, 1]")), path)
    assert list(load_model(path).proto.graph.node[1].attribute[0].ints) == [-4, 2, 1]


def test_name_that_is_not_text(tmp_path: Path) -> None:
    content = add_model({"w": weight(np.float32)}).SerializeToString().replace(b"add_w", b"add\xff\xfe")
    (tmp_path / "a.onnx").write_bytes(content)
    refuse(tmp_path / "a.onnx", ConversionError, "UTF-8")


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        ({"location": "none.bin"}, "does not exist"),
        ({"location": "folder"}, "not a regular file"),
        ({"location": "fifo"}, "not a regular file"),
        ({"location": "null"}, "outside the model's folder"),
        ({"location": "link"}, "outside the model's folder"),
        ({"location": "loop"}, "cannot be found"),
        ({"location": "linked/secret.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "absolute"),
        ({"location": "C:\\weights.bin"}, "absolute"),
        ({"location": "../secret.bin"}, "leaves the model's folder"),
        ({"location": "folder/../../secret.bin"}, "leaves the model's folder"),
        ({"location": "folder\\..\\..\\secret.bin"}, "leaves the model's folder"),
        ({"location": "a\0b"}, "no usable file name"),
        ({"location": "n" * 5000}, "cannot be found"),
        ({"location": ""}, "one location"),
        ({"offset": "0"}, "one location"),
        ({"location": "w.bin", "offset": "4"}, "bytes 4 to 4004"),
        ({"location": "w.bin", "offset": str(2**62)}, f"bytes {2**62}"),
        ({"location": "w.bin", "offset": "-4"}, "offset of its external data is '-4'"),
        ({"location": "w.bin", "offset": "9" * 5000}, "offset"),
        ({"location": "w.bin", "length": "-1"}, "length"),
        ({"location": "w.bin", "length": "0x10"}, "length"),
        ({"location": "w.bin", "length": "3999"}, "3999 bytes long"),
        ({"location": "empty.bin"}, "which has 0"),
    ],
)
def test_unsound_external_data(tmp_path: Path, entries: dict[str, str], word: str) -> None:
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(bytes(4000))
    (folder / "w.bin").write_bytes(bytes(4000))
    (folder / "empty.bin").touch()
    (folder / "null").symlink_to("/dev/null")
    (folder / "link").symlink_to("../secret.bin")
    (folder / "linked").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    (folder / "a.onnx").write_bytes(with_initializer(external_tensor(**entries)).SerializeToString())
    refuse(folder / "a.onnx", ConversionError, word, "initializer 'w'")


def test_sound_external_data(tmp_path: Path) -> None:
    values = weight(np.float32)
    (tmp_path / "w.bin").write_bytes(b"abc" + values.tobytes())
    (tmp_path / "near").symlink_to("w.bin")
    for location in ("w.bin", "./w.bin", "near"):
        tensor = external_tensor(location=location, offset="3")
        (tmp_path / "a.onnx").write_bytes(with_initializer(tensor).SerializeToString())
        model = load_model(tmp_path / "a.onnx")
        assert np.array_equal(model.array(model.proto.graph.initializer[0]), values)


def test_it_reads_no_files_but_its_own_where_one_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(weight(np.float32).tobytes())
    folder = tmp_path / "a model"
    folder.mkdir()
    os.link(tmp_path / "secret", folder / "w.bin")
    (folder / "a.onnx").write_bytes(with_initializer(external_tensor(location="w.bin")).SerializeToString())
    refuse(folder / "a.onnx", ConversionError, "has 2 names: it is a hard link", "cp '")
    with pytest.raises(ConversionError) as caught:
        load_model(folder / "a.onnx")
    subprocess.run(caught.value.problems[0].fix.partition(": ")[2], shell=True, check=True)
    assert load_model(folder / "a.onnx") and (tmp_path / "secret").stat().st_nlink == 1


def test_a_link_to_elsewhere_is_copied_by_the_command_that_is_advised(tmp_path: Path) -> None:
    """As download caches keep weights: the model's folder has links alone."""
    (tmp_path / "blob").write_bytes(weight(np.float32).tobytes())
    folder = tmp_path / "a model"
    folder.mkdir()
    (folder / "w.bin").symlink_to("../blob")
    (folder / "a.onnx").write_bytes(with_initializer(external_tensor(location="w.bin")).SerializeToString())
    refuse(folder / "a.onnx", ConversionError, "outside the model's folder", "cp -L '")
    with pytest.raises(ConversionError) as caught:
        load_model(folder / "a.onnx")
    subprocess.run(caught.value.problems[0].fix.partition(": ")[2], shell=True, check=True)
    assert load_model(folder / "a.onnx") and (tmp_path / "blob").is_file()


def test_the_checksum_of_external_data_is_held(tmp_path: Path) -> None:
    data = weight(np.float32).tobytes()
    (tmp_path / "w.bin").write_bytes(data)
    right = hashlib.sha1(data).hexdigest()
    for checksum in (right, right.upper(), ""):
        tensor = external_tensor(location="w.bin", checksum=checksum)
        (tmp_path / "a.onnx").write_bytes(with_initializer(tensor).SerializeToString())
        assert load_model(tmp_path / "a.onnx")
    for checksum in ("0" * 40, "sha1:" + right, right[:-1]):
        tensor = external_tensor(location="w.bin", checksum=checksum)
        (tmp_path / "a.onnx").write_bytes(with_initializer(tensor).SerializeToString())
        refuse(tmp_path / "a.onnx", ConversionError, f"'w.bin' has the SHA-1 {right}", checksum)


def test_external_data_named_twice(tmp_path: Path) -> None:
    tensor = external_tensor(location="w.bin")
    tensor.external_data.add(key="location", value="v.bin")
    (tmp_path / "a.onnx").write_bytes(with_initializer(tensor).SerializeToString())
    refuse(tmp_path / "a.onnx", ConversionError, "one location")


def test_external_data_in_a_subgraph_is_checked(tmp_path: Path) -> None:
    path = save_external(rich_model(), tmp_path / "a.onnx")
    proto = onnx.load(path, load_external_data=False)
    branch = next(a.g for a in proto.graph.node[0].attribute if a.name == "else_branch")
    next(e for e in branch.initializer[0].external_data if e.key == "location").value = "../x"
    path.write_bytes(proto.SerializeToString())
    refuse(path, ConversionError, "leaves the model's folder", "w_else")


# Outputs


def refuse_output(model: Model, path: Path, word: str, kind: type[TrtsmithError] = UsageError) -> None:
    with pytest.raises(kind) as caught:
        save_model(model, path)
    assert word in str(caught.value), str(caught.value)


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    onnx.save(rich_model(), tmp_path / "a.onnx")
    save_external(rich_model(), tmp_path / "e.onnx", "out.onnx.data")
    model, external = load_model(tmp_path / "a.onnx"), load_model(tmp_path / "e.onnx")
    (tmp_path / "link.onnx").symlink_to("a.onnx")
    os.link(tmp_path / "a.onnx", tmp_path / "hard.onnx")
    os.mkfifo(tmp_path / "fifo")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    refuse_output(model, tmp_path, "is a folder")
    refuse_output(model, tmp_path / "none" / "b.onnx", "does not exist")
    refuse_output(model, tmp_path / "a.onnx" / "b.onnx", "does not exist")
    refuse_output(model, tmp_path / "fifo", "not a regular file")
    refuse_output(model, Path("/dev/null"), "not a regular file")
    refuse_output(model, tmp_path / "a\0b", "cannot be used")
    refuse_output(model, Path("/proc/b.onnx"), "cannot be written")
    for own in ("a.onnx", "link.onnx", "hard.onnx"):
        refuse_output(model, tmp_path / own, "the model's own file")
    refuse_output(external, tmp_path / "out.onnx.data", "the model's own file")
    with pytest.raises(UsageError, match="own file"):
        save_model(external, tmp_path / "out.onnx", inline_limit=0)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == before


def test_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(rich_model(), tmp_path / "a.onnx")
    (tmp_path / "b.onnx").write_bytes(b"old")
    (tmp_path / "b.onnx.data").write_bytes(b"old data")
    model = load_model(tmp_path / "a.onnx")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    for limit in (1 << 30, 0):
        with monkeypatch.context() as patch:
            patch.setattr(os, "copy_file_range", full, raising=False)
            patch.setattr(os, "write", full)
            with pytest.raises(UsageError, match="No space left"):
                save_model(model, tmp_path / "b.onnx", inline_limit=limit)
    assert {file.name: file.read_bytes() for file in tmp_path.glob("[!a]*")} == {
        "b.onnx": b"old",
        "b.onnx.data": b"old data",
    }
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("by_the_kernel", [True, False])
def test_replaces_an_old_output_by_what_onnx_writes(
    by_the_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_the_kernel:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    onnx.save(rich_model(), tmp_path / "a.onnx")
    (tmp_path / "real.onnx").write_bytes(b"old")
    (tmp_path / "b.onnx").symlink_to("real.onnx")
    save_model(load_model(tmp_path / "a.onnx"), tmp_path / "b.onnx")
    assert (tmp_path / "b.onnx").is_symlink()
    assert onnx.load(tmp_path / "real.onnx") == rich_model()
    assert not list(tmp_path.glob(".*"))


# Damage: whatever the bytes, either a model or an error of ours


def survive(path: Path, content: bytes) -> bool:
    path.write_bytes(content)
    try:
        model = load_model(path)
        tensors_of(model)
        save_model(model, path.with_name("out.onnx"))
    except TrtsmithError:
        return False
    return True


def test_truncated_anywhere(tmp_path: Path) -> None:
    content = rich_model().SerializeToString()
    cuts = [*range(0, len(content), 97), *range(len(content) - 150, len(content))]
    assert not any(survive(tmp_path / "a.onnx", content[:cut]) for cut in cuts if cut < len(content) - 60)
    for cut in cuts:
        survive(tmp_path / "a.onnx", content[:cut])


@pytest.mark.parametrize("seed", range(2))
def test_flipped_bytes(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    content = rich_model().SerializeToString()
    path = save_external(rich_model(), tmp_path / "a.onnx")
    lean = path.read_bytes()  # with the weights outside, nearly every byte is structure
    outcomes = set()
    for _ in range(150):
        for original in (content, lean):
            damaged = bytearray(original)
            for _ in range(generator.choice((1, 1, 3, 20))):
                damaged[generator.randrange(len(damaged))] = generator.randrange(256)
            outcomes.add(survive(path, bytes(damaged)))
    assert outcomes == {True, False}


def test_what_is_released_can_be_read_again(tmp_path: Path) -> None:
    wanted = np.random.default_rng(0).integers(0, 256, 5 * 4096 + 77, np.uint8)
    (tmp_path / "weights").write_bytes(wanted.tobytes())
    file = MappedFile(tmp_path / "weights")
    for start, stop in ((0, wanted.size), (100, 9000), (4096, 8192), (5, 5), (3, 90)):
        part = file.bytes[start:stop]
        np.testing.assert_array_equal(part, wanted[start:stop])
        file.release(part)
        np.testing.assert_array_equal(file.bytes, wanted)
    file.release(wanted)  # somebody else's
    file.release(np.empty(0, np.uint8))
