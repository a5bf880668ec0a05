"""TensorRT's graph and the reference graph come from one source."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh

from tests.converter.model.builders import rich_model
from tests.converter.models import convolution, inverse, relu, save, value
from tests.converter.rewrite.running import loaded
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.convert.plan import plan
from trtsmith.converter.model.check import iter_graphs
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand, onnxruntime_runs, reference, rewrite


@pytest.mark.parametrize("kind", ["relu", "rich", "unnamed"])
def test_a_model_that_needs_nothing_comes_out_node_for_node(kind: str, tmp_path: Path) -> None:
    unnamed = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[n, ?] x) => (float[n, ?] y) { a = Relu (x)  y = Relu (a) }'
    )
    relu_file = relu(tmp_path / "r.onnx")
    model = loaded({"relu": onnx.load(relu_file), "rich": rich_model(), "unnamed": unnamed}[kind], tmp_path)
    before = model.proto.SerializeToString()
    result = rewrite(model)
    assert (result.rewrites, result.declined) == ((), ())
    assert model.proto.SerializeToString() == before
    after = onnx.ModelProto.FromString(result.model.proto.SerializeToString())
    for proto in (after, given := onnx.ModelProto.FromString(before)):
        for graph in iter_graphs(proto.graph):  # inference adds types, and nothing else
            del graph.value_info[:]
            for output in graph.output:
                output.type.Clear()
    assert after.SerializeToString(deterministic=True) == given.SerializeToString(deterministic=True)


IMPORTED = """
import sys
from trtsmith.converter.cli.main import main
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import reference
assert main(["check", sys.argv[1]]) == 0
reference(load_model(sys.argv[1]))
print("onnx_graphsurgeon" in sys.modules)
"""


@pytest.mark.parametrize("kind", ["standard", "sampled", "custom"])
def test_graphsurgeon_is_imported_for_models_with_custom_operators_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    if kind == "custom":
        inverse(path)
    else:  # a GridSample whose samples are not summed is no attention
        nodes = [oh.make_node("GridSample", ["x", "g"], ["a"]), oh.make_node("ReduceMax", ["a"], ["y"])]
        nodes = nodes if kind == "sampled" else [oh.make_node("Relu", ["x"], ["y"])]
        save(path, nodes, [value("x", (1, 2, 3, 3)), value("g", (1, 4, 4, 2))], [value("y", None)])
    ran = subprocess.run([sys.executable, "-c", IMPORTED, path], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == str(kind == "custom")


def test_rewritten_and_expanded(tmp_path: Path) -> None:
    model = load_model(inverse(tmp_path / "m.onnx"))
    result = rewrite(model)
    (record,) = result.rewrites
    assert (record.node, record.op_type) == ("inv", "com.microsoft::Inverse")
    node = next(n for n in result.model.proto.graph.node if n.domain == "trtsmith")
    assert (node.op_type, node.name) == ("MatrixInverse", record.plugin_node)
    assert {a.name: a.s for a in node.attribute} == {"plugin_version": b"1", "plugin_namespace": b"trtsmith"}
    assert {o.domain: o.version for o in result.model.proto.opset_import}["trtsmith"] == 1
    expanded = expand(result.model)
    assert {n.domain for n in expanded.proto.graph.node} == {""}
    x = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 4, 4)))[0].astype(np.float32)
    np.testing.assert_allclose(run(expanded, {"x": x})["y"], np.linalg.inv(-x), atol=1e-5)


def test_rewriting_twice_changes_nothing_more(tmp_path: Path) -> None:
    once = rewrite(load_model(convolution(tmp_path / "m.onnx"))).model
    twice = rewrite(once)
    assert [n.op_type for n in twice.model.proto.graph.node] == [n.op_type for n in once.proto.graph.node]
    assert [(n.input, n.output) for n in twice.model.proto.graph.node] == [
        (n.input, n.output) for n in once.proto.graph.node
    ]


def test_reference_keeps_what_onnxruntime_has(tmp_path: Path) -> None:
    assert onnxruntime_runs("com.microsoft", "Inverse") and not onnxruntime_runs("mmcv", "MMCVDeformConv2d")
    assert not onnxruntime_runs("", "EfficientNMS_TRT")
    kept = load_model(inverse(tmp_path / "i.onnx"))
    assert reference(kept) is kept
    made = reference(load_model(convolution(tmp_path / "c.onnx")))
    assert {n.domain for n in made.proto.graph.node} == {""}


def test_reference_keeps_functions_of_the_model(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17, "mmcv" : 1]>
    g (float[2] x) => (float[2] y) { y = mmcv.MMCVDeformConv2d (x) }
    <domain: "mmcv", opset_import: ["" : 17]> MMCVDeformConv2d (a) => (b) { b = Neg (a) }"""
    model = loaded(text, tmp_path)
    assert reference(model) is model


FUNCTIONS = """<ir_version: 9, opset_import: ["" : 20, "mine" : 1]> g (float[3, 4] x) => (float[3, 4] z)
    { a = mine.outer (x)  b = mine.native (a)  z = mine.twice (b) }
    <domain: "mine", opset_import: ["" : 20, "mine" : 1]> outer (p) => (q) { n = Neg (p)  q = mine.inner (n) }
    <domain: "mine", opset_import: ["" : 20]> inner (p) => (q)
    { size = Constant <value_ints = [3, 4]> ()  q = CenterCropPad (p, size) }
    <domain: "mine", opset_import: ["" : 20]> native (p) => (q) { n = Exp (p)  q = Neg (n) }
    <domain: "mine", opset_import: ["" : 20]> twice (p) => (q)
    { axes = Constant <value_ints = [1]> ()  m = ReduceMean (p, axes)  q = Add (p, m) }"""


def test_functions_are_inlined_where_tensorrt_does_not_take_their_nodes(tmp_path: Path) -> None:
    model = loaded(FUNCTIONS, tmp_path)
    result = rewrite(model)
    left = [node.op_type for node in result.model.proto.graph.node if node.domain == "mine"]
    assert left == ["native", "twice"] and plan(result).convertible
    assert [(r.op_type, r.pass_name.split(",")[0]) for r in result.rewrites] == [
        ("CenterCropPad", "functions")
    ]
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(result.model, {"x": x})["z"], run(model, {"x": x})["z"], rtol=1e-6)


def test_a_function_is_inlined_if_a_rule_takes_one_of_its_nodes(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20, "mine" : 1]> g (float[3, 4] x, float[4] w) => (float[3, 4] z)
        { a = mine.normal (x, w)  z = mine.mean (a, w) }
        <domain: "mine", opset_import: ["" : 20]> normal (p, w) => (q) { q = LayerNormalization (p, w) }
        <domain: "mine", opset_import: ["" : 20]> mean (p, w) => (r) { q, m = LayerNormalization (p, w)  r = Add (q, m) }"""
    model = loaded(text, tmp_path)
    result = rewrite(model)
    assert [r.op_type for r in result.rewrites] == ["LayerNormalization"] and plan(result).convertible
    x, w = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32), np.ones(4, np.float32)
    feeds = {"x": x, "w": w}
    np.testing.assert_allclose(run(result.model, feeds)["z"], run(model, feeds)["z"], rtol=1e-5)
    untouched = rewrite(loaded(text.replace("z = mine.mean (a, w)", "z = Neg (a)"), tmp_path))
    assert untouched.found() == 0
    assert [node.op_type for node in untouched.model.proto.graph.node] == ["normal", "Neg"]


def test_old_opsets_are_not_expanded(tmp_path: Path) -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 9]> g (float[2, 2] x) => (float[2, 2] y) { y = InverseTRT (x) }'
    )
    model = loaded(text, tmp_path)
    with pytest.raises(ConversionError, match="opset 9 is older than"):
        expand(rewrite(model).model)


def test_unnamed_and_equally_named_nodes(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[2, 2] a) => (float[2, 2] f) {
        [same] b = Relu (a)  [same] c = com.microsoft.Inverse (b)  d = com.microsoft.Inverse (c)
        [same] e = com.microsoft.Inverse (d)  f = com.microsoft.Inverse (e)
    }"""
    result = rewrite(loaded(text, tmp_path))
    assert [r.node for r in result.rewrites] == ["same_1", "Inverse_2", "same_2", "Inverse_4"]
    names = [n.name for n in result.model.proto.graph.node]
    assert len(set(names)) == 5 and names[0] == "same"
    assert plan(result).routes() == {"native": 1, "plugin": 4}


def test_a_refused_node_has_one_problem_whatever_its_name(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17, "mmcv" : 1, "bar" : 1]>
    g (float[1, 1, 4, 4] x) => (float[] a, float[] b, float[] c, float[] d, float[] z) {
        a = mmcv.MMCVDeformConv2d (x)  b = mmcv.MMCVDeformConv2d (x)
        [same] c = mmcv.MMCVDeformConv2d (x)  [same] d = mmcv.MMCVDeformConv2d (x)  [same] z = bar.Foo (x)
    }"""
    result = rewrite(loaded(text, tmp_path))
    planned = plan(result)
    assert [p.what for p in planned.problems] == [
        *["input 'offset' (number 1) is not connected"] * 4, "no importer for operator bar::Foo",
    ]  # fmt: skip
    assert planned.routes() == {"unsupported": 5}


def seconds_of(kind: str, count: int, folder: Path) -> float:
    """Process time of loading, rewriting and planning so many nodes."""
    op, domain = {
        "plain": ("Relu", ""),
        "refused": ("MMCVDeformConv2d", "mmcv"),
    }.get(kind, ("Inverse", "com.microsoft"))
    chain = kind == "plain"
    nodes = [
        oh.make_node(
            op, [f"v{i}" if chain else "v0"], [f"v{i + 1}"], name="same" if kind == "equal names" else f"n{i}",
            domain=domain,
        )
        for i in range(count)
    ]  # fmt: skip
    outputs = [value(f"v{i + 1}", (4, 4)) for i in range(count) if not chain or i == count - 1]
    path = save(folder / f"{count}.onnx", nodes, [value("v0", (4, 4))], outputs)
    gc.disable()  # a collection walks all that other tests have left in this process
    try:
        started = time.process_time()
        planned = plan(rewrite(load_model(path)))
        seconds = time.process_time() - started
    finally:
        gc.enable()
    assert len(planned.nodes) == count and len(planned.problems) == (count if kind == "refused" else 0)
    return seconds


@pytest.mark.parametrize("kind", ["plain", "equal names", "refused"])
def test_time_is_linear_in_the_number_of_nodes(kind: str, tmp_path: Path) -> None:
    """Eight times the nodes take about eight times as long, and not 64 times, whatever machine it is."""
    seconds_of(kind, 100, tmp_path)  # what is imported and read once
    assert seconds_of(kind, 10_000, tmp_path) < 24 * seconds_of(kind, 1_250, tmp_path)


@pytest.mark.parametrize(("dtype", "engine"), [("float16", 10), ("double", 1), ("bfloat16", 16)])
def test_types(dtype: str, engine: int, tmp_path: Path) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
    g ({dtype}[n, 3, 3] x) => ({dtype}[n, 3, 3] y) {{ y = com.microsoft.Inverse (x) }}"""
    model = loaded(text, tmp_path)
    rewritten = rewrite(model)
    result = rewritten.model.proto
    assert "Cast" not in [n.op_type for n in result.graph.node]
    assert (result.graph.output[0].name, result.graph.output[0].type.tensor_type.elem_type) == ("y", engine)
    assert [io.name for io in rewritten.io_types] == (["x", "y"] if dtype == "double" else [])
    assert result.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_a_warning_about_many_nodes_is_one_line(tmp_path: Path) -> None:
    result = rewrite(load_model(inverse(tmp_path / "m.onnx")))
    (record,) = result.rewrites
    told = [replace(record, node=f"n{i}", numerics=("rounds", "is slow")[: i + 1]) for i in range(2)]
    result = replace(result, rewrites=tuple(told))
    name = "com.microsoft::Inverse"
    assert result.warnings() == (f"n0 ({name}) and 1 more: rounds", f"n1 ({name}): is slow")
