"""Nodes against schemas, functions against each other: said on loading, with the node's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from trtsmith.converter.model.errors import InvalidModelError
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import rewrite

A = onnx.AttributeProto


def model(text: str, change: Callable[[onnx.ModelProto], object] = lambda proto: None) -> onnx.ModelProto:
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


def retyped(proto: onnx.ModelProto) -> None:
    first(proto).attribute[0].type = A.FLOAT


def repeated(proto: onnx.ModelProto) -> None:
    first(proto).attribute.append(first(proto).attribute[0])


def referring(proto: onnx.ModelProto) -> None:
    first(proto).attribute[0].ref_attr_name = "axis"


def untyped(proto: onnx.ModelProto) -> None:
    first(proto).attribute[0].ClearField("type")


def no_input_type(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.elem_type = 0


def far_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[1].version = 1 << 40


def calling_itself(proto: onnx.ModelProto) -> None:
    call = helper.make_node("Turn", ["a"], ["b"], domain="own")
    proto.functions.append(helper.make_function("own", "Turn", ["a"], ["b"], [call], proto.opset_import))


def shadowing(proto: onnx.ModelProto) -> None:
    call = helper.make_node("Identity", ["a"], ["b"])
    proto.functions.append(helper.make_function("", "Constant", ["a"], ["b"], [call], proto.opset_import))


def without_value(proto: onnx.ModelProto) -> None:
    first(proto).attribute[0].ClearField("t")


def without_text(proto: onnx.ModelProto) -> None:
    first(proto).attribute[0].s = b"\xff"


THEN = "then_branch = t () => (v) { v = Relu (x) }"


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        ("{ y = Concat (x, x) }", None, "The attribute 'axis', which Concat needs, is missing."),
        ("{ y = Concat <axis = 1> (x, x) }", retyped, "is of type FLOAT, and its value is in i"),
        ("{ y = Concat <axis = 1.0> (x, x) }", None, "The attribute 'axis' is of type FLOAT."),
        ("{ y = Concat <axis = 1> (x, x) }", repeated, "The attribute 'axis' is given twice."),
        ("{ y = Concat <axis = 1> (x, x) }", referring, "takes the value of 'axis'"),
        ("{ y = Concat <axis = 1> (x, x) }", untyped, "The attribute 'axis' has no type."),
        ("{ y = Constant () }", None, "The Constant has no attribute."),
        ("{ y = Constant <value = float {1}> () }", without_value, "is of type TENSOR, and its value is in none"),
        ("{ y = Relu (x, x) }", None, "the node has 2 inputs"),
        ("{ y = Add ( , x) }", None, "The input 'A' (number 0), which Add needs, is left out."),
        ("{ y, z = Relu (x) }", None, "the node has 2 outputs"),
        ("{ y = com.microsoft.MultiHeadAttention (x, x, x) }", None, "The attribute 'num_heads', which"),
        (f"{{ y = If (c) <{THEN}> }}", None, "The attribute 'else_branch', which If needs, is missing."),
        (f"{{ y, z = If (c) <{THEN}, else_branch = e () => (w, u) {{ w, u = Split (x) }}> }}", None,
         "The graph 'then_branch' of the node has 1 outputs."),
        ("{ y = MaxPool <kernel_shape = [2, 2], strides = [2]> (x) }", None, "The attribute 'strides' is [2]."),
        ("{ y, z = Split <num_outputs = 1> (x) }", None, "The attribute 'num_outputs' is 1, and the node has 2"),
        ("{ y = MaxPool <kernel_shape = [2, 0]> (x) }", None, "The attribute 'kernel_shape' is [2, 0]."),
        ('{ y = Cast <round_mode = "up", to = 1> (x) }', without_text, "'round_mode' is not text in UTF-8."),
        ("{ y = Cast <to = -1> (x) }", None, "The attribute 'to' is -1."),
        ("{ y = EyeLike <dtype = 99> (x) }", None, "The attribute 'dtype' is 99."),
        ("{ y = Relu (x) }", no_input_type, "The input has no data type."),
        ("{ y = Relu (x) }", far_opset, "is imported as opset 1099511627776."),
        ("{ y = own.Turn (x) }", calling_itself, "The function own::Turn calls itself."),
        ("{ y = Relu (x) }", shadowing, "A function is called 'Constant'"),
    ],
)  # fmt: skip
def test_what_no_rule_should_meet_is_refused_on_loading(
    text: str, change: Callable[[onnx.ModelProto], object] | None, said: str, tmp_path: Path
) -> None:
    assert said in problem(model(text, change or (lambda proto: None)), tmp_path)


def test_the_place_is_told_in_bodies_and_functions(tmp_path: Path) -> None:
    inner = "{ y = If (c) <then_branch = t () => (v) { v = Concat (x) }, else_branch = e () => (w) { w = Relu (x) }> }"
    assert "node 'y' (If): node 'v' (Concat)" in problem(model(inner), tmp_path)

    def wrong_body(proto: onnx.ModelProto) -> None:
        body = helper.make_node("Concat", ["a"], ["b"])
        proto.functions.append(helper.make_function("own", "Turn", ["a"], ["b"], [body], proto.opset_import))

    assert "function own.Turn: node 'b' (Concat)" in problem(
        model("{ y = own.Turn (x) }", wrong_body), tmp_path
    )


@pytest.mark.parametrize(
    "text",
    [
        "{ y = own.Unknown <anything = 1> (x, x, , x) }",
        "{ y = Relu <plugin_version = \"1\"> (x) }",
        "{ one = Constant <value_int = 1> () y = Clip (x, , ) }",
    ],
)  # fmt: skip
def test_what_others_may_know_is_let_through(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(text), path)
    assert load_model(path).proto.graph.node


def test_a_body_may_refer_to_an_attribute_of_its_function(tmp_path: Path) -> None:
    def with_axis(proto: onnx.ModelProto) -> None:
        body = helper.make_node("Concat", ["a"], ["b"])
        body.attribute.append(A(name="axis", ref_attr_name="axis", type=A.INT))
        made = helper.make_function("own", "Join", ["a"], ["b"], [body], proto.opset_import, ["axis"])
        proto.functions.append(made)

    path = tmp_path / "m.onnx"
    onnx.save(model("{ y = own.Join <axis = 1> (x) }", with_axis), path)
    assert load_model(path).proto.functions
    assert "The attribute 'axis', which Join needs" in problem(
        model("{ y = own.Join (x) }", with_axis), tmp_path
    )


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
