"""Graph surgery on GraphSurgeon graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx import helper as oh

from tests.converter.models import load, value
from trtsmith.converter.rewrite.custom_ops.graphsurgeon import from_gs, to_gs
from trtsmith.converter.rewrite.custom_ops.surgery import (
    all_graphs,
    constant_of,
    domain_of,
    ensure_domain,
    foreign_node,
    known_shape,
    opset_of,
    replace_nodes,
)


def test_constants_in_all_their_forms(tmp_path: Path) -> None:
    nodes = [
        oh.make_node("Constant", [], ["tensor"], value=numpy_helper.from_array(np.arange(3))),
        oh.make_node("Constant", [], ["ints"], value_ints=[4, 5]),
        oh.make_node("Constant", [], ["number"], value_float=0.5),
        oh.make_node("Relu", ["x"], ["computed"]),
        oh.make_node("Sum", ["tensor", "ints", "number", "computed", "w", "large"], ["y"]),
    ]
    weights = {"w": np.array([7.0]), "large": np.zeros(2000, np.float32)}
    model = load(tmp_path / "m.onnx", nodes, [value("x", (1,))], [value("y", None)], weights)
    graph = to_gs(model)
    found = {t.name: constant_of(t) for t in graph.nodes[-1].inputs}
    assert found["computed"] is None and found["large"] is None
    assert {n: v.tolist() for n, v in found.items() if v is not None} == {
        "tensor": [0, 1, 2], "ints": [4, 5], "number": 0.5, "w": [7.0],
    }  # fmt: skip


def test_node_as_it_was_written(tmp_path: Path) -> None:
    node = oh.make_node("Foo", ["x", "", "w"], ["y", "", "z"], domain="bar", a=1, b=[2.5], c="s")
    model = load(
        tmp_path / "m.onnx", [node], [value("x", ("n", 3))], [value("y", None)], {"w": np.ones(2, np.int32)}
    )
    graph = to_gs(model)
    found = foreign_node(graph.nodes[0], "given", {tensor.name for tensor in graph.outputs})
    assert (found.name, found.op_type, found.domain) == ("given", "Foo", "bar")
    assert (found.inputs, found.outputs) == (("x", "", "w"), ("y", "", ""))  # nobody reads z
    assert found.attributes == {"a": 1, "b": [2.5], "c": "s"}
    assert (found.dtypes["x"], found.dtypes["w"]) == ("float32", "int32")
    assert (found.shapes["x"], found.shapes["w"]) == ((None, 3), (2,))
    assert found.constant("w").tolist() == [1, 1]
    assert known_shape(graph.nodes[0].outputs[0]) is None


def test_domains_and_opsets(tmp_path: Path) -> None:
    nodes = [
        oh.make_node("Relu", ["x"], ["a"], domain="ai.onnx"),
        oh.make_node("Foo", ["a"], ["y"], domain="bar"),
    ]
    model = load(
        tmp_path / "m.onnx", nodes, [value("x", (1,))], [value("y", None)], domains={"bar": 3, "ai.onnx": 17}
    )
    graph = to_gs(model)
    assert [domain_of(n) for n in graph.nodes] == ["", "bar"]
    assert (opset_of(graph, ""), opset_of(graph, "bar"), opset_of(graph, "forgotten")) == (17, 3, 1)
    ensure_domain(graph, "bar")
    ensure_domain(graph, "new")
    imports = {o.domain: o.version for o in from_gs(graph, model).proto.opset_import}
    assert imports["bar"] == 3 and imports["new"] == 1


def test_replacing_a_node_keeps_the_values_around_it(tmp_path: Path) -> None:
    nodes = [
        oh.make_node("Relu", ["x"], ["a"], name="first"),
        oh.make_node("Foo", ["a"], ["y", "z"], name="foo", domain="bar"),
        oh.make_node("Neg", ["y"], ["w"], name="last"),
    ]
    outputs = [value("y", ("n",)), value("z", None), value("w", None)]
    model = load(tmp_path / "m.onnx", nodes, [value("x", ("n",))], outputs)
    graph = to_gs(model)
    new = [
        oh.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(1, np.float32))),
        oh.make_node("Add", ["a", "k"], ["middle"], name="n1"),
        oh.make_node("Split", ["middle"], ["y", "z"], name="n2", num_outputs=2),
    ]
    replace_nodes(graph, {id(graph.nodes[1]): new})
    after = from_gs(graph, model).proto.graph
    assert [n.name for n in after.node] == ["first", "n1", "n2", "last"]
    assert [t.name for t in after.initializer] == ["k"]
    assert [o.name for o in after.output] == ["y", "z", "w"]
    assert after.output[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert [list(n.input) for n in after.node] == [["x"], ["a", "k"], ["middle"], ["y"]]


def test_subgraphs_are_visited(tmp_path: Path) -> None:
    inner = oh.make_graph([oh.make_node("Relu", ["x"], ["i"])], "inner", [], [value("i", (1,))])
    nested = oh.make_node("If", ["c"], ["t"], then_branch=inner, else_branch=inner)
    outer = oh.make_graph([nested], "outer", [], [value("t", (1,))])
    node = oh.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=inner)
    inputs = [value("x", (1,)), value("c", (), TensorProto.BOOL)]
    model = load(tmp_path / "m.onnx", [node], inputs, [value("y", (1,))])
    assert [len(g.nodes) for g in all_graphs(to_gs(model))] == [1, 1, 1, 1, 1]
    assert onnx.checker.check_model(from_gs(to_gs(model), model).proto) is None
