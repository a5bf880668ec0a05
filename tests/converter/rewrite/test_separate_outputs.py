"""Identities behind outputs that share memory with other values."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.converter.rewrite.running import loaded
from trtsmith.converter.convert.plan import Route, plan
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.model_bytes import ModelBytes
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import Rewritten, rewrite
from trtsmith.converter.rewrite.separate_outputs import NAME, separate_outputs
from trtsmith.converter.rewrite.target import RTX, TENSORRT

CONSTANTS = {
    "w": np.arange(24, dtype=np.float32).reshape(6, 4),
    "parts": np.array([2, 2]),
    "shape": np.array([3, 8]),
    "axis": np.array([0]),
    "one": np.array([1]),
}


def model_of(signature: str, body: str, folder: Path) -> Model:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {signature} {{ {body} }}')
    read = {name for graph in (model.graph,) for node in graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in read
    )
    onnx.checker.check_model(model, full_check=True)
    return loaded(model, folder)


def separated(result: Rewritten) -> set[str]:
    """The outputs that got an Identity, which nobody else reads."""
    graph = result.model.proto.graph
    onnx.checker.check_model(result.model.proto, full_check=True)
    identities = {r.node for r in result.rewrites if r.pass_name == NAME}
    made = [node for node in graph.node if node.name in identities]
    assert all(node.op_type == "Identity" for node in made) and len(made) == len(identities)
    names = {node.output[0] for node in made}
    known = {value.name: value.type for value in (*graph.value_info, *graph.output)}
    assert all(known[node.input[0]] == known[node.output[0]] for node in made)
    assert names.isdisjoint(name for node in graph.node for name in node.input)
    return names


@pytest.mark.parametrize(
    ("signature", "body", "names"),
    [
        # computed, or a view that nobody shares
        ("(float[4, 6] x) => (float[4, 6] y)", "y = Relu (x)", ""),
        ("(float[4, 6] x) => (float[3, 8] y)", "y = Reshape (x, shape)", ""),
        ("(float[4, 6] x) => (float[6, 4] y)", "r = Relu (x) y = Transpose (r)", ""),
        ("(float[4, 6] x) => (float[3, 8] y)", "t = Transpose (x) y = Reshape (t, shape)", ""),
        ("(float[4, 6] x) => (float[4, 6] y, float[4, 6] z)", "y = Sqrt (x) z = Relu (x)", ""),
        ("(float[4, 6] x) => (float[2, 6] y)", "u, v = Split <axis = 0> (x, parts) y = Add (u, v)", ""),
        # read on
        ("(float[4, 6] x) => (float[4, 6] y, float[4, 6] z)", "y = Sqrt (x) z = Relu (y)", "y"),
        ("(float[4, 6] x) => (float[4, 6] y, float[4, 6] z)", "y = Identity (x) z = Relu (y)", "y"),
        # views of what others read, at once and through other views
        ("(float[4, 6] x) => (float[3, 8] y, float[4, 6] z)", "y = Reshape (x, shape) z = Relu (x)", "y"),
        ("(float[4, 6] x) => (float[3, 8] y, float[4, 6] r)", "r = Relu (x) y = Reshape (r, shape)", "r y"),
        (
            "(float[4, 6] x) => (float[4, 6] y, float[6] m)",
            "r = Relu (x) u = Unsqueeze (r, one) y = Squeeze (u, one) m = ReduceMax <keepdims = 0> (r, axis)",
            "y",
        ),
        (
            "(float[4, 6] x) => (float[8, 6] y, float[4, 6] z)",
            "r = Relu (x) s = Sqrt (x) y = Concat <axis = 0> (s, r) z = Neg (r)",
            "y",
        ),
        (
            "(float[4, 6] x) => (float[2, 6] y, float[2, 6] z)",
            "y, v = Split <axis = 0> (x, parts) z = Relu (v)",
            "y",
        ),
        ("(float[4, 6] x) => (float[2, 6] y, float[2, 6] z)", "y, z = Split <axis = 0> (x, parts)", "y z"),
        # an Identity that is there already; bytes, of which there is none
        (
            "(float[4, 6] x) => (float[4, 6] y, float[3, 8] z)",
            "r = Relu (x) v = Reshape (r, shape) z = Identity (v) y = Sqrt (r)",
            "",
        ),
        (
            "(float[4, 6] x) => (uint8[4, 6] y, float[4, 6] z)",
            "p = Abs (x) y = Cast <to = 2> (p) z = Cast <to = 1> (y)",
            "z",
        ),
        # what no input decides: transposed and in another shape
        ("(float[4, 6] x) => (float[4, 6] y, float[6, 4] c)", "y = Relu (x) c = Identity (w)", ""),
        ("(float[4, 6] x) => (float[4, 6] y, float[3, 8] c)", "y = Relu (x) c = Reshape (w, shape)", ""),
        ("(float[4, 6] x) => (float[4, 4] y, float[3, 8] c)", "y = MatMul (x, w) c = Reshape (w, shape)", ""),
        (
            "(float[4, 6] x) => (float[4, 6] y, float[3, 8] c)",
            "y = Relu (x) n = Neg (w) t = Transpose (n) c = Reshape (t, shape)",
            "c",
        ),
        (
            "(float[4, 6] x) => (float[4, 6] y, float[3, 8] c)",
            "y = Relu (x) t = Transpose (w) b = Reshape (t, shape) c = Identity (b)",
            "",
        ),
    ],
)
def test_which_outputs(signature: str, body: str, names: str, tmp_path: Path) -> None:
    model = model_of(signature, body, tmp_path)
    result = rewrite(model, target=RTX)
    assert separated(result) == set(names.split())
    if not result.rewrites:
        assert list(result.model.proto.graph.node) == list(model.proto.graph.node)
    assert not any(r.pass_name == NAME for r in rewrite(model, target=TENSORRT).rewrites)
    x = {"x": np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)}
    for name, array in run(result.model, x).items():
        np.testing.assert_array_equal(array, run(model, x)[name])


def test_graphs_within_nodes_read_the_identity(tmp_path: Path) -> None:
    model = model_of(
        "(float[4, 6] x, bool k) => (float[4, 6] y, float[4, 6] z)",
        """y = Sqrt (x)
        z = If (k) <then_branch = a () => (float[4, 6] u) { u = Neg (y) },
                    else_branch = b () => (float[4, 6] v) { v = Abs (y) }>""",
        tmp_path,
    )
    result = rewrite(model, target=RTX)
    onnx.checker.check_model(result.model.proto, full_check=True)
    assert [r.what for r in result.rewrites] == ["behind the output 'y'"]
    feeds = {"x": np.ones((4, 6), np.float32), "k": np.array([True])[0:1].reshape(())}
    assert (run(result.model, feeds)["z"] == -1).all()


def test_names_that_are_taken(tmp_path: Path) -> None:
    model = model_of(
        "(float[4, 6] x) => (float[4, 6] y, float[4, 6] z)",
        '"y/value" = Neg (x) y = Sqrt ("y/value") z = Relu (y)',
        tmp_path,
    )
    model.proto.graph.node[2].name = "y/Identity"
    result = rewrite(model, target=RTX)
    assert separated(result) == {"y"}
    assert [r.node for r in result.rewrites] == ["y/Identity_1"]


def test_the_plan_tells_of_them(tmp_path: Path) -> None:
    signature = "(float[4, 6] x) => (float[4, 6] y, float[4, 6] z)"
    result = rewrite(model_of(signature, "y = Sqrt (x) z = Relu (y)", tmp_path), target=RTX)
    assert [(n.op_type, n.route) for n in plan(result).nodes] == [
        ("Sqrt", Route.NATIVE),
        ("Identity", Route.REWRITTEN),
        ("Relu", Route.NATIVE),
    ]


class Unsearched(list[str]):
    """Names that are not to be searched for each of them: for 100,000 outputs that took a minute."""

    def count(self, value: object) -> int:
        raise AssertionError(f"{value} is searched")

    index = __contains__ = count  # type: ignore[assignment]


def test_the_list_of_outputs_is_not_searched_for_each() -> None:
    names = [f"y{index}" for index in range(9)]
    nodes = [helper.make_node("Abs", ["x"], [name]) for name in names]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in names]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    proto = helper.make_model(helper.make_graph(nodes, "g", [x], outputs))
    graph = Graph(load_model(ModelBytes(proto.SerializeToString())))
    graph.root.results = Unsearched(graph.root.results)
    assert separate_outputs(graph, RTX) == ()
