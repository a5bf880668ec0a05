"""Expansion of whole models, and the schemas that infer shapes through plugin nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import helper, parser

import trtsmith.importers.expansion
from tests.importers.running import case_inputs, error, plugin_model, run_standard
from trtsmith.converter.graph.onnx_inference import infer_shapes
from trtsmith.importers.expansion import (
    ExpansionError,
    expand_model,
    expansion_function,
    plugin_nodes,
    with_functions,
)
from trtsmith.importers.opdef import Expansion, OpDef
from trtsmith.importers.registry import OPS, by_name

OP = next(op for op in OPS if op.name == "ModulatedDeformableConvolution")
CASE = next(case for case in OP.cases if case.name == "groups_differ")


def domains(model: onnx.ModelProto) -> set[str]:
    return {entry.domain for entry in model.opset_import}


def test_expansion_leaves_the_model_alone() -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float32"), 17)
    before = model.SerializeToString()
    expanded = expand_model(model, {})
    assert model.SerializeToString() == before
    assert domains(expanded) == {""}
    assert not expanded.functions
    assert not list(plugin_nodes(expanded.graph))
    assert [v.name for v in expanded.graph.input] == [v.name for v in model.graph.input]
    expanded.graph.output[0].type.tensor_type.shape.SetInParent()
    for size in OP.reference(CASE.fields, case_inputs(OP, CASE, "float32"))["output"].shape:
        expanded.graph.output[0].type.tensor_type.shape.dim.add().dim_value = size
    onnx.checker.check_model(expanded, full_check=True)


def test_model_without_plugin_nodes() -> None:
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "x" : 1]> g (float[2] a) => (float[2] b) { b = Neg (a) }'
    )
    assert expand_model(model, {}) == model


def test_opset_too_old() -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float32"), 10)
    with pytest.raises(LookupError, match="opset 10 is older than 11"):
        expand_model(model, {})


def test_the_opset_is_the_functions_where_the_model_names_none() -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float32"), 17)
    version = next(o for o in model.opset_import if not o.domain)
    body = helper.make_node("Neg", ["a"], ["b"])
    model.functions.append(helper.make_function("own", "Turn", ["a"], ["b"], [body], [version]))
    model.opset_import.remove(version)
    assert not list(plugin_nodes(expand_model(model, {}).graph))


def test_functions_of_another_opset_stay() -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float32"), 17)
    body = helper.make_node("Relu", ["a"], ["b"])
    model.functions.append(
        helper.make_function("own", "Late", ["a"], ["b"], [body], [helper.make_opsetid("", 18)])
    )
    expanded = expand_model(model, {})
    assert not list(plugin_nodes(expanded.graph)) and [f.name for f in expanded.functions] == ["Late"]


def test_two_nodes_and_somebody_elses() -> None:
    inputs = case_inputs(OP, CASE, "float32")
    model = plugin_model(OP, CASE, inputs, 17)
    second = onnx.NodeProto()
    second.CopyFrom(model.graph.node[0])
    second.name, second.output[0] = "second", "again"
    foreign = helper.make_node("Foreign", ["output"], ["strange"], domain="somebody")
    model.graph.node.extend([second, foreign, helper.make_node("Add", ["output", "again"], ["twice"])])
    model.graph.output[0].name = "twice"
    model.opset_import.append(helper.make_opsetid("somebody", 1))
    expanded = expand_model(model, {})
    assert [n.op_type for n in expanded.graph.node if n.domain] == ["Foreign"]
    assert domains(expanded) == {"", "somebody"}
    expanded.graph.node.remove(next(n for n in expanded.graph.node if n.domain))
    outputs = run_standard(expanded, inputs)
    assert error(outputs[0], 2 * OP.reference(CASE.fields, inputs)["output"]) < OP.tolerance["float32"]


def test_equal_nodes_share_one_function_that_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float32"), 17)
    for name in ("equal", "other"):
        node = model.graph.node.add()
        node.CopyFrom(model.graph.node[0])
        node.output[0] = name
    model.graph.node[2].input[4] = ""
    built = []

    def build(op: OpDef, expansion: Expansion) -> onnx.FunctionProto:
        built.append(expansion.present)
        return expansion_function(op, expansion)

    monkeypatch.setattr(trtsmith.importers.expansion, "expansion_function", build)
    expanded, functions = with_functions(model, {})
    first, equal, other = expanded.graph.node
    assert first.op_type == equal.op_type != other.op_type
    assert len(functions) == len(built) == len(set(built)) == 2


CARAFE = """<ir_version: 9, opset_import: ["" : 17, "trtsmith" : 1]>
    g (float[1, 4, 8, 8] x, float[1, C, 16, 16] m) => (float[1, 4, 16, 16] y) {
        y = trtsmith.FeatureReassembly <kernel_size = 4097, groups = 1, scale_factor = 2> (x, m)
    }"""


def test_an_expansion_of_millions_of_nodes_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parser.parse_model(CARAFE)
    with pytest.raises(ExpansionError, match=r"kernel_size = 4097.* takes more than 131,072 nodes"):
        expand_model(model, {})
    model.graph.node[0].attribute[0].i = 5
    count = len(expand_model(model, {}).graph.node)
    monkeypatch.setattr(trtsmith.importers.expansion, "MOST_NODES", 2 * count)
    for output in "abc":
        node = model.graph.node.add()
        node.CopyFrom(model.graph.node[0])
        node.output[0] = output
    with pytest.raises(ExpansionError, match="the model's plugin nodes take more than"):
        expand_model(model, {})


@pytest.mark.parametrize(
    ("name", "changed", "takes"),
    [
        ("RegionAlign", {"output_height": 1, "output_width": 1 << 26}, "more than 131,072 elements"),
        ("GroupedDeformableSampling", {"kernel_shape": (3, 1 << 26)}, "more than 131,072 elements"),
        ("CorrelationLookup", {"radius": 1 << 26}, "more than 131,072 elements"),
    ],
)
def test_an_expansion_of_huge_sizes_is_not_written(name: str, changed: dict[str, object], takes: str) -> None:
    op = by_name()[name]
    fields = dict(op.cases[0].fields) | changed
    present = frozenset(port.name for port in op.inputs)
    with pytest.raises(ExpansionError, match=f"67108864.* takes {takes}"):
        expansion_function(op, Expansion(fields, present, "float32", 17))


def test_a_reshape_of_a_users_expansion_keeps_its_meaning_of_zero() -> None:
    """0 is "as it was" there, as ONNX says; in our own bodies a computed size of 0 is a size."""
    body = "kept = Constant <value = int64[2] {0, -1}> ()\noutput = Reshape (x, kept)"
    expansion = Expansion(CASE.fields, frozenset(["x"]), "float32", 17)
    theirs = expansion_function(replace(OP, name="Theirs", expand=lambda _: body), expansion)
    assert [node.attribute[:] for node in theirs.node if node.op_type == "Reshape"] == [[]]
    present = frozenset(port.name for port in OP.inputs)
    ours = expansion_function(OP, Expansion(CASE.fields, present, "float32", 17))
    zeros = [a.i for node in ours.node for a in node.attribute if a.name == "allowzero"]
    assert zeros and all(zeros)


def test_node_inside_a_branch() -> None:
    inputs = case_inputs(OP, CASE, "float32")
    model = plugin_model(OP, CASE, inputs, 17)
    node = model.graph.node[0]
    branch = helper.make_graph([node], "then", [], [helper.make_tensor_value_info("output", 1, None)])
    zero = helper.make_node("Sub", ["bias", "bias"], ["nothing"])
    other = helper.make_graph([zero], "else", [], [helper.make_tensor_value_info("nothing", 1, None)])
    choice = helper.make_node("If", ["flag"], ["chosen"], then_branch=branch, else_branch=other)
    del model.graph.node[:]
    model.graph.node.append(choice)
    model.graph.output[0].name = "chosen"
    model.graph.input.append(helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    expanded = expand_model(model, {})
    assert not list(plugin_nodes(expanded.graph))
    output = run_standard(expanded, {**inputs, "flag": np.array(True)})[0]
    assert error(output, OP.reference(CASE.fields, inputs)["output"]) < OP.tolerance["float32"]


def inferred_output(model: onnx.ModelProto) -> onnx.TypeProto.Tensor:
    return infer_shapes(model, data_prop=True).graph.output[0].type.tensor_type


def test_type_is_known_where_the_shape_is_not() -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float16"), 17)
    model.graph.output[0].type.tensor_type.ClearField("elem_type")
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    tensor = inferred_output(model)
    assert tensor.elem_type == onnx.TensorProto.FLOAT16
    assert not tensor.HasField("shape")


def test_wrong_rank_infers_nothing() -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float32"), 17, {"x": (2, 12, 56)})
    assert not inferred_output(model).HasField("shape")


def test_missing_field_infers_nothing() -> None:
    model = plugin_model(OP, CASE, case_inputs(OP, CASE, "float32"), 17)
    node = model.graph.node[0]
    node.attribute.remove(next(a for a in node.attribute if a.name == "stride"))
    assert not inferred_output(model).HasField("shape")
