"""onnxruntime on models with mapped weights, and the operators it computes on the CPU."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime.capi.onnxruntime_pybind11_state as ort_state
import pytest
from onnx import helper as oh
from onnx import numpy_helper as onh

from tests.converter.model.builders import add_model, grown, rich_feeds, rich_model, save_external, weight
from tests.converter.models import parsed, written
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.model.load import load_model, save_model
from trtsmith.converter.model.ort import open_session, run
from trtsmith.converter.model.ort_kernels import operators_that_run, without_kernel
from trtsmith.converter.rewrite.custom_ops.graphsurgeon import from_gs, to_gs
from trtsmith.converter.rewrite.rewrite import onnxruntime_runs


def oracle(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """onnxruntime on the model as onnx serialises it, all weights inside."""
    return np.asarray(ort.InferenceSession(model.SerializeToString()).run(["y"], feeds)[0])


def assert_runs_alike(path: Path) -> None:
    model = load_model(path)
    for condition in (True, False):
        feeds = rich_feeds(condition)
        expected = oracle(rich_model(), feeds)
        assert np.abs(expected).max() > 1
        for variant in (model, from_gs(to_gs(model), model)):
            outputs = run(variant, feeds)
            assert outputs.keys() == {"y"}
            assert outputs["y"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("padding", range(4))
def test_weights_inside(tmp_path: Path, padding: int) -> None:
    # protobuf aligns nothing: shift the weights through every alignment
    (tmp_path / "a.onnx").write_bytes(
        b"\x12" + bytes([padding]) + b"p" * padding + rich_model().SerializeToString()
    )
    assert_runs_alike(tmp_path / "a.onnx")


def test_weights_in_external_data(tmp_path: Path) -> None:
    assert_runs_alike(save_external(rich_model(), tmp_path / "a.onnx"))


def test_threads_leave_the_cores_to_others_while_they_wait(tmp_path: Path) -> None:
    session = open_session(load_model(save_external(rich_model(), tmp_path / "a.onnx")))
    options = session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_external(rich_model(), tmp_path / "a.onnx")
    monkeypatch.chdir(tmp_path)
    assert_runs_alike(Path("a.onnx"))


def test_model_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    onnx.save(rich_model(), tmp_path / "store" / "0123")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "rich.onnx").symlink_to(tmp_path / "store" / "0123")
    assert_runs_alike(tmp_path / "here" / "rich.onnx")


def test_model_with_two_names(tmp_path: Path) -> None:
    """onnxruntime reads no weights of a subgraph from a hard link, which is what uv installs."""
    (tmp_path / "cache").write_bytes(rich_model().SerializeToString())
    os.link(tmp_path / "cache", tmp_path / "a.onnx")
    assert_runs_alike(tmp_path / "a.onnx")


def test_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.onnx"))
    path.write_bytes(rich_model().SerializeToString())
    assert_runs_alike(path)


def test_file_replaced_or_gone_since_it_was_mapped(tmp_path: Path) -> None:
    save_external(rich_model(), tmp_path / "a.onnx")
    model = load_model(tmp_path / "a.onnx")
    feeds = rich_feeds(True)
    expected = oracle(rich_model(), feeds)
    (tmp_path / "other").write_bytes(bytes((tmp_path / "weights.bin").stat().st_size))
    os.replace(tmp_path / "other", tmp_path / "weights.bin")
    assert run(model, feeds)["y"].tobytes() == expected.tobytes()
    shutil.rmtree(tmp_path)
    assert run(model, feeds)["y"].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float64, np.int32, np.int64], ids=lambda d: np.dtype(d).name
)
def test_dtypes(tmp_path: Path, dtype: type) -> None:
    value = weight(dtype)
    onnx.save(add_model({"w": value}), tmp_path / "a.onnx")
    x = weight(dtype, 1)
    assert np.array_equal(run(load_model(tmp_path / "a.onnx"), {"x_w": x})["y_w"], x + value)


def test_an_opset_that_is_too_old_is_the_cause(tmp_path: Path) -> None:
    written(tmp_path / "a.onnx", "(float[2] x) => (float[2] y) { y = Relu (x) }", opset=3)
    with pytest.raises(ConversionError, match="cannot open") as raised:
        run(load_model(tmp_path / "a.onnx"), {"x": np.ones(2, np.float32)})
    assert raised.value.problems[0].fix.startswith("convert the model with onnx.version_converter to opset")


@pytest.mark.parametrize("ir_version", [3, 10, 14])
def test_ir_versions(tmp_path: Path, ir_version: int) -> None:
    proto = add_model({"w": weight(np.float32)})
    proto.ir_version = ir_version
    if ir_version == 3:  # every initializer was an input then
        proto.graph.input.append(oh.make_tensor_value_info("w", 1, [1000]))
    onnx.save(proto, tmp_path / "a.onnx")
    model = load_model(tmp_path / "a.onnx")
    assert np.array_equal(run(model, {"x_w": np.zeros(1000, np.float32)})["y_w"], weight(np.float32))
    assert model.proto.ir_version == ir_version


# Errors


def refuse(proto: onnx.ModelProto, path: Path, feeds: dict[str, np.ndarray] | None, *words: str) -> None:
    onnx.save(proto, path)
    model = load_model(path)
    with pytest.raises(ConversionError) as caught:
        run(model, feeds) if feeds is not None else open_session(model)
    (problem,) = caught.value.problems
    assert all(part and "\n" not in part for part in problem.to_json().values())
    for word in words:
        assert word in str(problem), str(problem)


def one_node(text: str, *initializers: onnx.TensorProto) -> onnx.ModelProto:
    head = '<ir_version: 10, opset_import: ["" : 20, "d" : 1]>'
    model = onnx.parser.parse_model(f"{head} g (float[n] x) => (float[n] y) {{ [the_node] y = {text} }}")
    model.graph.initializer.extend(initializers)
    return model


def test_unknown_operator(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ("does not know d:Wobble", "node 'the_node' (Wobble)")
    refuse(one_node("d.Wobble (x)"), tmp_path / "a.onnx", None, *words)
    refuse(one_node("Wobble (x)"), tmp_path / "a.onnx", None, "Wobble", "node 'the_node'")
    assert capfd.readouterr() == ("", "")


def test_wrong_attribute(tmp_path: Path) -> None:
    refuse(one_node("Relu <wrong = 1> (x)"), tmp_path / "a.onnx", None, "wrong", "the_node")


def test_no_kernel(tmp_path: Path) -> None:
    proto = one_node("Relu (x)")
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    refuse(proto, tmp_path / "a.onnx", None, "Relu", "node 'the_node'")


def test_failure_while_running(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    proto = one_node("Reshape (x, s)", onh.from_array(np.array([7], np.int64), "s"))
    refuse(proto, tmp_path / "a.onnx", {"x": np.zeros(6, np.float32)}, "node 'the_node' (Reshape)")
    assert capfd.readouterr() == ("", "")


def test_wrong_feeds(tmp_path: Path) -> None:
    for feeds in ({}, {"x": np.zeros(6, np.int64)}, {"x": np.zeros((6, 6), np.float32)}):
        refuse(one_node("Relu (x)"), tmp_path / "a.onnx", feeds, "x")


# Memory


THRIFTY = """
    import numpy as np
    from trtsmith.converter.model.load import load_model
    from trtsmith.converter.model.ort import open_session, run_session
    model = load_model(sys.argv[1])
    begin()
    session = open_session(model, thrifty=bool(int(sys.argv[2])))
    run_session(session, model, {"x": np.ones((1, 1000), np.float32)})
    end()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_thrifty_session_holds_no_second_copy_of_weights(tmp_path: Path) -> None:
    """Products with 25 weights of 4 MB, each negated first: that could be folded, or computed for all of them at once."""
    weights = {
        f"w{i}": np.random.default_rng(i).standard_normal((1000, 1000)).astype(np.float32) for i in range(25)
    }
    nodes = " ".join(
        f"n{i} = Neg (w{i}) x{i + 1} = MatMul ({f'x{i}' if i else 'x'}, n{i})" for i in range(25)
    )
    path = written(tmp_path / "a.onnx", f"(float[1, 1000] x) => (float[1, 1000] x25) {{ {nodes} }}", weights)
    assert grown(THRIFTY, path, 1)[0] < 40
    assert grown(THRIFTY, path, 0)[0] > 90


OPENING = """
    from trtsmith.converter.model.load import load_model
    from trtsmith.converter.model.ort import open_session
    model = load_model(sys.argv[1])
    begin()
    session = open_session(model, repack=False)
    end()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_opening_copies_no_weights(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float32)
    onnx.save(add_model({f"w{i}": values for i in range(25)}), tmp_path / "a.onnx")  # 100 MB
    save_model(load_model(tmp_path / "a.onnx"), tmp_path / "b.onnx", inline_limit=0)
    assert all(grown(OPENING, tmp_path / name)[0] < 20 for name in ("a.onnx", "b.onnx"))


def test_a_graph_that_onnxruntimes_optimiser_breaks_is_run_without_it(tmp_path: Path) -> None:
    text = """(bool[2, 3] x) => (bool[2, 3] y, bool[2] z) <int64[2, 3] where = {1, 0, 1, 0, 0, 1}> {
        v = GatherElements <axis = 0> (x, where) y = Identity (v)
        c = Cast <to = 1> (v) s = Shape (c) z = Equal (s, s) }"""
    x = np.array([[True, False, True], [False, False, True]])
    found = run(parsed(tmp_path / "m.onnx", text, opset=18), {"x": x})
    assert found["y"].tolist() == [[False, False, True], [True, False, True]]
    assert found["z"].tolist() == [True, True]


def test_indices_out_of_range_name_the_inputs_that_they_are_computed_from(tmp_path: Path) -> None:
    text = """(float[3] x, int64[2] i, int64 w, float[2] u) => (float[3] y) <int64[1] a = {1}> {
        j = Mul (i, w) k = Unsqueeze (j, a) y = ScatterND (x, k, u) }"""
    feeds = {"x": np.ones(3, np.float32), "i": np.full(2, 3), "w": np.array(2), "u": np.ones(2, np.float32)}
    with pytest.raises(ConversionError) as raised:
        run(parsed(tmp_path / "m.onnx", text, opset=18), feeds)
    (problem,) = raised.value.problems
    assert problem.where.endswith("(ScatterND), computed from input 'i', 'w'")
    assert problem.fix == "give values for which they are: --inputs FILE.npz with 'i', 'w'"


def test_a_schema_alone_computes_nothing() -> None:
    for name in ("GroupNorm", "SkipGroupNorm", "BiasSplitGelu", "ComplexMul"):
        assert without_kernel("com.microsoft", name) and not onnxruntime_runs("com.microsoft", name)
    for name in ("Inverse", "MatMulNBits", "SkipLayerNormalization", "Attention", "FastGelu"):
        assert onnxruntime_runs("com.microsoft", name) and not without_kernel("com.microsoft", name)
    for name in ("Conv", "HardSwish", "CenterCropPad", "GroupNormalization", "Constant", "Loop"):
        assert onnxruntime_runs("", name)
    assert not without_kernel("", "EfficientNMS_TRT") and not without_kernel("acme", "Twice")


def test_a_build_that_does_not_tell_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    operators_that_run.cache_clear()
    monkeypatch.delattr(ort_state, "get_all_opkernel_def")
    try:
        assert ("com.microsoft", "GroupNorm") in operators_that_run()
    finally:
        operators_that_run.cache_clear()


def test_values_larger_than_the_memory_are_no_fault_of_the_model(tmp_path: Path) -> None:
    text = "(int64[1] n) => (float y) { c = ConstantOfShape (n) y = ReduceSum <keepdims = 0> (c) }"
    model = parsed(tmp_path / "m.onnx", text)
    with pytest.raises(ConversionError) as error:
        run(model, {"n": np.array([2**50])})
    assert "a machine with more memory" in error.value.problems[0].fix
