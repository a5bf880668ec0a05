"""Functions whose calls unfold to more than anybody can work with are refused: counted, and not unfolded."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest
from onnx import helper

from fuzzing.bombs import named_bombs, rows_of_nodes
from trtsmith.converter.model import check
from trtsmith.converter.model.check import check_model
from trtsmith.converter.model.nodes.function_check import MOST_DEPTH, MOST_UNFOLDED, check_functions


def calling(ways: Sequence[int], name: str = "f") -> onnx.ModelProto:
    """Functions of which each calls the one before so many times; the first has one node."""
    functions = []
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    for level, count in enumerate([1, *ways]):
        kind, domain = (f"{name}{level - 1}", "d") if level else ("Relu", "")
        nodes = [helper.make_node(kind, ["x"], [f"y{way}"], domain=domain) for way in range(count)]
        functions.append(helper.make_function("d", f"{name}{level}", ["x"], ["y0"], nodes, imports))
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    main = helper.make_node(f"{name}{len(ways)}", ["x"], ["z"], domain="d")
    graph = helper.make_graph([main], "g", [value], [onnx.ValueInfoProto(name="z")])
    return helper.make_model(graph, functions=functions, opset_imports=imports)


def said(proto: onnx.ModelProto) -> str:
    return " ".join(map(str, check_functions(proto, "m.onnx")))


def test_calls_are_counted_as_if_they_were_unfolded() -> None:
    assert said(calling([2] * 15)) == ""
    assert f"unfold to {3 * 2**16 - 2:,} nodes" in said(calling([2] * 16))
    assert f"at most {MOST_UNFOLDED:,} nodes" in said(calling([2] * 16))
    assert "more than 10^15 nodes" in said(calling([10] * 60))


def test_long_names_are_counted_where_they_come_again() -> None:
    assert "of 1" in said(calling([300], "f" * 300_000))


def test_a_chain_of_calls_is_as_long_as_onnx_takes() -> None:
    assert said(calling([1] * (MOST_DEPTH - 1))) == ""
    assert f"{MOST_DEPTH + 1} functions call each other in a row" in said(calling([1] * MOST_DEPTH))


@pytest.mark.parametrize("name", ["doubling_functions", "laughing_functions", "chain_of_functions"])
def test_the_models_with_which_this_began(name: str) -> None:
    assert said(onnx.ModelProto.FromString(named_bombs()[name]))


def test_graphs_in_graphs_are_counted_by_their_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = nested(5)
    assert check_model(proto, "m.onnx") == []
    monkeypatch.setattr(check, "_MOST_NESTED", 9)
    (problem,) = check_model(proto, "m.onnx")
    assert "lie in each other 5 deep; their nodes count 10." in str(problem) and "at most 9" in str(problem)


def nested(depth: int) -> onnx.ModelProto:
    """A branch in a branch, so deep: one node in each."""
    node = "y0 = Identity (x)"
    for i in range(depth):
        node = (
            f"y{i + 1} = If (c) <then_branch = b () => (y{i}) {{ {node} }}, else_branch = e () => (x) {{}}>"
        )
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    return onnx.parser.parse_model(f"{head} g (float[1] x, bool c) => (y{depth}) {{ {node} }}")


def test_too_many_nodes_are_refused_before_any_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_MOST_NODES", 50)
    assert check_model(rows_of_nodes(49, "Abs"), "m.onnx") == []
    (problem,) = check_model(rows_of_nodes(50, "Abs"), "m.onnx")
    assert "The model has 51 nodes." in str(problem) and "at most 50" in str(problem)
