"""Graphs that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper as oh

from tests.converter.models import load, save, value
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.load import load_model

X, Y = value("x", (1,)), value("y", (1,))


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: object) -> onnx.NodeProto:
    return oh.make_node(op, inputs.split(), outputs.split(), name=name, **attributes)


UNSOUND = {
    "circle": ([node("Add", "x b", "a", "n1"), node("Relu", "a", "b", "n2"), node("Relu", "b", "y", "n3")],
               "The graph has a circle.", "node 'n1' (Add), node 'n2' (Relu)"),
    "itself": ([node("Add", "x y", "y", "n1")], "The graph has a circle.", "node 'n1' (Add)"),
    "nothing makes it": ([node("Add", "x b", "y", "n1")], "Nothing makes the value 'b'", "node 'n1' (Add)"),
    "no output": ([node("Relu", "x", "z", "n1")], "Nothing makes the output 'y'.", "m.onnx"),
    "made twice": ([node("Relu", "x", "y", "n1"), node("Neg", "x", "y")],
                   "The value 'y' is made twice: by node 'n1' (Relu) and by node 'y' (Neg).", "m.onnx"),
    "overwrites an input": ([node("Relu", "x", "x", "n1"), node("Relu", "x", "y", "n2")],
                            "The value 'x' is made twice: by an input or initializer", "m.onnx"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSOUND)
def test_it_is_consistent_before_it_is_used(case: str, tmp_path: Path) -> None:
    nodes, what, where = UNSOUND[case]
    with pytest.raises(ConversionError) as error:
        load(tmp_path / "m.onnx", nodes, [X], [Y])
    assert any(what in p.what and where in p.where for p in error.value.problems), error.value.problems


@pytest.mark.parametrize(
    ("inputs", "outputs", "what"),
    [
        ([X, X], [Y], "2 inputs are called 'x'."),
        ([X], [Y, Y], "2 outputs are called 'y'."),
        ([X, value("", (1,))], [Y], "One of the inputs has no name."),
        ([X], [], "The model has no output."),
    ],
)
def test_unsound_edges(inputs: list, outputs: list, what: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as error:
        load(tmp_path / "m.onnx", [node("Relu", "x", "y")], inputs, outputs)
    assert [p.what for p in error.value.problems] == [what]


def branch(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    return oh.make_graph(nodes, "branch", [], [value(output, (1,))])


def choose(then: onnx.GraphProto, otherwise: onnx.GraphProto, outputs: str = "y") -> onnx.NodeProto:
    return node("If", "c", outputs, "choose", then_branch=then, else_branch=otherwise)


def test_subgraphs_see_what_is_outside(tmp_path: Path) -> None:
    then = branch([node("Add", "late w", "t")], "t")
    nodes = [choose(then, branch([], "x")), node("Relu", "x", "late")]
    inputs = [X, value("c", (), onnx.TensorProto.BOOL)]
    model = load(tmp_path / "m.onnx", nodes, inputs, [Y], {"w": np.ones(1, np.float32)})
    assert [n.op_type for n in model.proto.graph.node] == ["Relu", "If"]


def test_nodes_are_sorted_and_else_stay_in_order(tmp_path: Path) -> None:
    inner = [node("Neg", "e", "f", "inner-2"), node("Abs", "x", "e", "inner-1")]
    nodes = [
        node("Relu", "x", "a", "1"),
        node("Add", "late d", "b", "5"),
        choose(branch(inner, "f"), branch([node("Relu", "b", "h")], "h"), "g"),
        node("Sum", "a b g", "y", "6"),
        node("Neg", "x", "early", "2"),
        node("Abs", "early", "late", "3"),
        node("Exp", "early", "d", "4"),
    ]
    flag = value("c", (), onnx.TensorProto.BOOL)
    graph = load(tmp_path / "m.onnx", nodes, [X, flag], [Y]).proto.graph
    onnx.checker.check_graph(graph)
    assert [n.name for n in graph.node] == ["1", *"2345", "choose", "6"]
    then = next(a.g for n in graph.node for a in n.attribute if a.name == "then_branch")
    assert [n.name for n in then.node] == ["inner-1", "inner-2"]


def test_circle_through_a_subgraph(tmp_path: Path) -> None:
    then = branch([node("Relu", "z", "t")], "t")
    nodes = [choose(then, branch([], "x")), node("Relu", "y", "z", "after")]
    with pytest.raises(ConversionError, match="has a circle") as error:
        load(tmp_path / "m.onnx", nodes, [X, value("c", (), onnx.TensorProto.BOOL)], [Y])
    assert error.value.problems[0].where.endswith("node 'choose' (If), node 'after' (Relu)")


def test_subgraphs_do_not_see_each_other(tmp_path: Path) -> None:
    then = branch([node("Relu", "x", "t")], "t")
    nodes = [choose(then, branch([node("Relu", "t", "e", "inner")], "e"))]
    with pytest.raises(ConversionError, match="Nothing makes the value 't'") as error:
        load(tmp_path / "m.onnx", nodes, [X, value("c", (), onnx.TensorProto.BOOL)], [Y])
    assert error.value.problems[0].where.endswith("m.onnx: node 'choose' (If): node 'inner' (Relu)")


def test_functions(tmp_path: Path) -> None:
    opsets = [oh.make_opsetid("", 17)]
    body = oh.make_function("local", "F", ["a"], ["b"], [node("Add", "a q", "b", "add")], opsets)
    call = oh.make_node("F", ["x"], ["y"], domain="local")
    path = save(tmp_path / "m.onnx", [call], [X], [Y], functions=[body])
    with pytest.raises(ConversionError, match="Nothing makes the value 'q'") as error:
        load_model(path)
    assert error.value.problems[0].where.endswith("function local.F: node 'add' (Add)")


def test_many_problems_are_cut(tmp_path: Path) -> None:
    nodes = [node("Add", f"x q{i}", f"y{i}") for i in range(200)]
    with pytest.raises(ConversionError) as error:
        load(tmp_path / "m.onnx", nodes, [X], [value("y0", (1,))])
    assert len(error.value.problems) == 50
