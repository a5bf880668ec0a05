"""Nodes are checked against schemas and functions against each other, on loading and without unfolding anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from fuzzing.bombs import named_bombs, rows_of_nodes
from trtsmith.converter.base.errors import InvalidModelError
from trtsmith.converter.model import check
from trtsmith.converter.model.check import check_header
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.nodes.function_check import MOST_DEPTH, MOST_UNFOLDED, check_functions
from trtsmith.converter.model.nodes.node_check import check_nodes
from trtsmith.converter.rewrite.rewrite import rewrite

A = onnx.AttributeProto
Change = Callable[[onnx.ModelProto], object]


def model(text: str, change: Change = lambda proto: None) -> onnx.ModelProto:
    """A model of opset 18 whose graph takes x, float[1,2,8,8]."""
    head = '<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1, "own" : 1]>'
    proto = onnx.parser.parse_model(f"{head} g (float[1,2,8,8] x, bool c) => (y) {text}")
    change(proto)
    return proto


def problem(proto: onnx.ModelProto, folder: Path) -> str:
    """The only problem of the model, all four parts."""
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializePartialToString())
    with pytest.raises(InvalidModelError) as caught:
        load_model(path)
    (found,) = caught.value.problems
    assert all(found.to_json().values())
    return str(found)


def first(proto: onnx.ModelProto) -> onnx.NodeProto:
    return proto.graph.node[0]


def with_function(domain: str, name: str, body: str, *attributes: str) -> Change:
    """A function of a and b, whose body is one node."""

    def change(proto: onnx.ModelProto) -> None:
        node = onnx.parser.parse_node(body)
        node.attribute.extend(A(name=one, ref_attr_name=one, type=A.INT) for one in attributes)
        parts = domain, name, ["a"], ["b"], [node], proto.opset_import, attributes
        proto.functions.append(helper.make_function(*parts))

    return change


def attribute(name: str, value: object) -> Change:
    """A part of the first node's first attribute that is something else, or gone."""

    def change(proto: onnx.ModelProto) -> None:
        held = first(proto).attribute[0]
        held.ClearField(name)
        if value is not None:
            setattr(held, name, value)

    return change


def repeated(proto: onnx.ModelProto) -> None:
    first(proto).attribute.append(first(proto).attribute[0])


def no_input_type(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.elem_type = 0


def far_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[1].version = 1 << 40


THEN = "then_branch = t () => (v) { v = Relu (x) }"


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        ("{ y = Concat (x, x) }", None, "The attribute 'axis', which Concat needs, is missing."),
        ("{ y = Concat <axis = 1> (x, x) }", attribute("type", A.FLOAT), "is of type FLOAT, and its value is in i"),
        ("{ y = Concat <axis = 1.0> (x, x) }", None, "The attribute 'axis' is of type FLOAT."),
        ("{ y = Concat <axis = 1> (x, x) }", repeated, "The attribute 'axis' is given twice."),
        ("{ y = Concat <axis = 1> (x, x) }", attribute("ref_attr_name", "axis"), "takes the value of 'axis'"),
        ("{ y = Concat <axis = 1> (x, x) }", attribute("type", None), "The attribute 'axis' has no type."),
        ("{ y = Constant () }", None, "The Constant has no attribute."),
        ("{ y = Constant <value = float {1}> () }", attribute("t", None), "is of type TENSOR, and its value is in none"),
        ("{ y = LeakyRelu <alpah = 0.3> (x) }", None, "LeakyRelu has no attribute 'alpah'."),
        ("{ y = LeakyRelu <alpah = 0.3> (x) }", None, "did you mean 'alpha'?"),
        ("{ y = Relu (x, x) }", None, "the node has 2 inputs"),
        ("{ y = Add ( , x) }", None, "The input 'A' (number 0), which Add needs, is left out."),
        ("{ y, z = Relu (x) }", None, "the node has 2 outputs"),
        ("{ y = com.microsoft.MultiHeadAttention (x, x, x) }", None, "The attribute 'num_heads', which"),
        (f"{{ y = If (c) <{THEN}> }}", None, "The attribute 'else_branch', which If needs, is missing."),
        (f"{{ y, z = If (c) <{THEN}, else_branch = e () => (w, u) {{ w, u = Split (x) }}> }}", None,
         "The graph 'then_branch' of the node has 1 outputs."),
        ("{ y = MaxPool <kernel_shape = [2, 2], strides = [2]> (x) }", None, "The attribute 'strides' is [2]."),
        ("{ y, z = Split <num_outputs = 1> (x) }", None, "The attribute 'num_outputs' is 1, and the node has 2"),
        ("{ y = Scan <num_scan_inputs = 1099511627776, body = b (float[2] p) => (float[2] q) { q = Abs (p) }> (x) }",
         None, "The attribute 'num_scan_inputs' is 1099511627776, and the node has 1 input."),
        ("{ y = MaxPool <kernel_shape = [2, 0]> (x) }", None, "The attribute 'kernel_shape' is [2, 0]."),
        ('{ y = Cast <round_mode = "up", to = 1> (x) }', attribute("s", b"\xff"), "'round_mode' is not text in UTF-8."),
        ("{ y = Cast <to = -1> (x) }", None, "The attribute 'to' is -1."),
        ("{ y = EyeLike <dtype = 99> (x) }", None, "The attribute 'dtype' is 99."),
        ("{ y = Relu (x) }", no_input_type, "The input has no data type."),
        ("{ y = Relu (x) }", far_opset, "is imported as opset 1099511627776."),
        ("{ y = own.Turn (x) }", with_function("own", "Turn", "b = own.Turn (a)"), "The function own::Turn calls itself."),
        ("{ y = Relu (x) }", with_function("", "Constant", "b = Identity (a)"), "A function is called 'Constant'"),
    ],
)  # fmt: skip
def test_what_no_rule_should_meet_is_refused_on_loading(
    text: str, change: Change | None, said: str, tmp_path: Path
) -> None:
    assert said in problem(model(text, change or (lambda proto: None)), tmp_path)


def test_the_place_is_told_in_bodies_and_functions(tmp_path: Path) -> None:
    inner = "{ y = If (c) <then_branch = t () => (v) { v = Concat (x) }, else_branch = e () => (w) { w = Relu (x) }> }"
    assert "node 'y' (If): node 'v' (Concat)" in problem(model(inner), tmp_path)

    wrong_body = with_function("own", "Turn", "b = Concat (a)")
    said = problem(model("{ y = own.Turn (x) }", wrong_body), tmp_path)
    assert "function own.Turn: node 'b' (Concat)" in said


@pytest.mark.parametrize(
    "text",
    [
        "{ y = own.Unknown <anything = 1> (x, x, , x) }",
        "{ y = LeakyRelu <slope = 1.0, alpha = 0.3, alphas = [0.3]> (x) }",
        "{ y = Relu <plugin_version = \"1\"> (x) }",
        "{ one = Constant <value_int = 1> () y = Clip (x, , ) }",
    ],
)  # fmt: skip
def test_what_others_may_know_is_let_through(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(text), path)
    assert load_model(path).proto.graph.node


def test_a_body_may_refer_to_an_attribute_of_its_function(tmp_path: Path) -> None:
    with_axis = with_function("own", "Join", "b = Concat (a)", "axis")
    path = tmp_path / "m.onnx"
    onnx.save(model("{ y = own.Join <axis = 1> (x) }", with_axis), path)
    assert load_model(path).proto.functions
    said = problem(model("{ y = own.Join (x) }", with_axis), tmp_path)
    assert "The attribute 'axis', which Join needs" in said


def test_shapes_that_an_operator_does_not_take_are_refused_in_onnxs_words(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    proto = model("{ f = Flatten (x) y = MaxPool <kernel_shape = [2, 2]> (f) }")
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(proto, path)
    with pytest.raises(InvalidModelError, match="ONNX's inference refuses the node") as caught:
        rewrite(load_model(path))
    (found,) = caught.value.problems
    assert "node 'y' (MaxPool)" in found.where
    assert "[1, 128]" in found.expected


def test_a_shape_that_the_model_states_wrongly_is_no_fault_of_the_node(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    proto = model("{ y = Relu (x) }")
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [7]))
    onnx.save(proto, path)
    assert rewrite(load_model(path)).model.proto.graph.node


def test_a_vector_of_two_billion_elements_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    proto = model("{ y = Mul (z, z) }")
    proto.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1 << 31]))
    onnx.save(proto, path)
    (value,) = rewrite(load_model(path)).model.proto.graph.output
    assert value.type.tensor_type.shape.dim[0].dim_value == 1 << 31


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
    assert f"expand to {3 * 2**16 - 2:,} nodes" in said(calling([2] * 16))
    assert f"at most {MOST_UNFOLDED:,} nodes" in said(calling([2] * 16))
    assert "more than 10^15 nodes" in said(calling([10] * 60))


def test_long_names_are_counted_where_they_come_again() -> None:
    assert "of 1" in said(calling([300], "f" * 300_000))


def test_a_chain_of_calls_is_as_long_as_onnx_takes() -> None:
    assert said(calling([1] * (MOST_DEPTH - 1))) == ""
    assert f"Functions are nested {MOST_DEPTH + 1} deep" in said(calling([1] * MOST_DEPTH))


@pytest.mark.parametrize("name", ["doubling_functions", "laughing_functions", "chain_of_functions"])
def test_the_models_with_which_this_began(name: str) -> None:
    assert said(onnx.ModelProto.FromString(named_bombs()[name]))


def test_graphs_in_graphs_are_counted_by_their_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = nested(5)
    assert check_header(proto, "m.onnx") == []
    monkeypatch.setattr(check, "_MOST_NESTED", 9)
    (problem,) = check_header(proto, "m.onnx")
    assert "are nested 5 deep, with 10 nodes in all." in str(problem) and "at most 9" in str(problem)


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
    assert check_header(rows_of_nodes(49, "Abs"), "m.onnx") == []
    (problem,) = check_header(rows_of_nodes(50, "Abs"), "m.onnx")
    assert "The model has 51 nodes." in str(problem) and "at most 50" in str(problem)


@pytest.mark.parametrize(
    "equation", ["...." , "." * 100_000 + "->", "i....j->i", "...i...->i", "i..->i", "i,j->i->j", "i1->i", "i->\u0131"]
)  # fmt: skip
def test_an_equation_that_is_none_does_not_reach_inference(equation: str) -> None:
    node = helper.make_node("Einsum", ["x"], ["y"], "n", equation=equation)
    (problem,) = check_nodes(one_node(node), "m.onnx")
    assert "The attribute 'equation' of the Einsum is" in str(problem)


@pytest.mark.parametrize(
    "equation", ["ij->ji", " ... i , i j -> ... j ", "...ii->...", "ab,bc", "->", "...", "i->"]
)
def test_equations_that_onnx_takes(equation: str) -> None:
    assert not list(
        check_nodes(one_node(helper.make_node("Einsum", ["x"], ["y"], equation=equation)), "m.onnx")
    )


def one_node(node: onnx.NodeProto) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 3])
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
