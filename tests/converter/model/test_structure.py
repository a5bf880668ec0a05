"""Invalid graph structures."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper as oh

from tests.converter.models import load, parsed, value
from trtsmith.converter.base.errors import ConversionError

X, Y = value("x", (1,)), value("y", (1,))
CHOOSE, SAME = "[choose] y = If (c) <", "else_branch = e () => (float[1] x) {}"


UNSOUND = {
    "circle": ("[n1] a = Add (x, b) [n2] b = Relu (a) [n3] y = Relu (b)",
               "The graph has a cycle.", "node 'n1' (Add), node 'n2' (Relu)"),
    "itself": ("[n1] y = Add (x, y)", "The graph has a cycle.", "node 'n1' (Add)"),
    "nothing makes it": ("[n1] y = Add (x, b)", "No node computes the value 'b'", "node 'n1' (Add)"),
    "no output": ("[n1] z = Relu (x)", "No node computes the output 'y'.", "m.onnx"),
    "made twice": ("[n1] y = Relu (x) y = Neg (x)",
                   "The value 'y' has two sources: node 'n1' (Relu) and node 'y' (Neg).", "m.onnx"),
    "overwrites an input": ("[n1] x = Relu (x) [n2] y = Relu (x)",
                            "The value 'x' has two sources: an input or initializer", "m.onnx"),
    "circle through a subgraph": (
        f"{CHOOSE} then_branch = t () => (float[1] t) {{ t = Relu (z) }}, {SAME}> [after] z = Relu (y)", "has a cycle",
        "node 'choose' (If), node 'after' (Relu)"),
    "subgraphs do not see each other": (
        f"{CHOOSE} then_branch = t () => (float[1] t) {{ t = Relu (x) }}, "
        "else_branch = e () => (float[1] e) { [inner] e = Relu (t) }>",
        "No node computes the value 't'", "m.onnx: node 'choose' (If): node 'inner' (Relu)"),
    "functions": ("y = local.F (x) } <domain: \"local\", opset_import: [\"\" : 17]> F (a) => (b) { [add] b = Add (a, q)",
                  "No node computes the value 'q'", "function local.F: node 'add' (Add)"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSOUND)
def test_it_is_consistent_before_it_is_used(case: str, tmp_path: Path) -> None:
    nodes, what, where = UNSOUND[case]
    with pytest.raises(ConversionError) as error:
        parsed(tmp_path / "m.onnx", f"(float[1] x, bool c) => (float[1] y) {{ {nodes} }}")
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
        load(tmp_path / "m.onnx", [oh.make_node("Relu", ["x"], ["y"])], inputs, outputs)
    assert [p.what for p in error.value.problems] == [what]


def test_subgraphs_see_what_is_outside(tmp_path: Path) -> None:
    nodes = f"{CHOOSE} then_branch = t () => (float[1] t) {{ t = Add (late, w) }}, {SAME}> late = Relu (x)"
    model = parsed(
        tmp_path / "m.onnx", f"(float[1] x, bool c) => (float[1] y) <float[1] w = {{1}}> {{ {nodes} }}"
    )
    assert [n.op_type for n in model.proto.graph.node] == ["Relu", "If"]


def test_nodes_are_sorted_and_else_stay_in_order(tmp_path: Path) -> None:
    text = """(float[1] x, bool c) => (float[1] y) { ["1"] a = Relu (x) ["5"] b = Add (late, d)
        [choose] g = If (c) <then_branch = t () => (float[1] f) { ["inner-2"] f = Neg (e) ["inner-1"] e = Abs (x) },
            else_branch = o () => (float[1] h) { h = Relu (b) }>
        ["6"] y = Sum (a, b, g) ["2"] early = Neg (x) ["3"] late = Abs (early) ["4"] d = Exp (early) }"""
    graph = parsed(tmp_path / "m.onnx", text).proto.graph
    onnx.checker.check_graph(graph)
    assert [n.name for n in graph.node] == ["1", *"2345", "choose", "6"]
    then = next(a.g for n in graph.node for a in n.attribute if a.name == "then_branch")
    assert [n.name for n in then.node] == ["inner-1", "inner-2"]


def test_many_problems_are_cut(tmp_path: Path) -> None:
    nodes = " ".join(f"y{i} = Add (x, q{i})" for i in range(200))
    with pytest.raises(ConversionError) as error:
        parsed(tmp_path / "m.onnx", f"(float[1] x) => (float[1] y0) {{ {nodes} }}")
    assert len(error.value.problems) == 50
