"""The graph for TensorRT 8.6 to 10 with V2 plugins."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.models import attention, convolution, inverse, parsed
from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.convert.rewriting import for_plugin_v2
from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import expand, rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT


def test_form_of_the_node(tmp_path: Path) -> None:
    proto = for_plugin_v2(rewrite(load_model(convolution(tmp_path / "m.onnx"))).model).proto
    (node,) = proto.graph.node
    assert (node.op_type, node.domain) == ("ModulatedDeformableConvolution", "trtsmith")
    kinds = {a.name: a.type for a in node.attribute}
    assert kinds["plugin_version"] == onnx.AttributeProto.STRING  # a parser ignores any other type
    assert {a.name: oh.get_attribute_value(a) for a in node.attribute} == {
        "plugin_version": b"1",
        "plugin_namespace": b"trtsmith",
        "stride": [1, 1],
        "padding": [1, 1, 1, 1],
        "dilation": [1, 1],
        "groups": 1,
        "offset_groups": 1,
    }


@pytest.mark.parametrize(("index", "casts"), [(TensorProto.INT64, 2), (TensorProto.INT32, 0)])
def test_index_inputs_are_32_bit(index: int, casts: int, tmp_path: Path) -> None:
    model = for_plugin_v2(rewrite(load_model(attention(tmp_path / "m.onnx", index))).model)
    onnx.checker.check_model(expand(model).proto)
    nodes = model.proto.graph.node
    assert [n.op_type for n in nodes].count("Cast") == casts
    dtypes = value_dtypes(onnx.shape_inference.infer_shapes(model.proto))
    (plugin,) = (n for n in nodes if n.domain == "trtsmith")
    assert [dtypes[name] for name in plugin.input[1:3]] == ["int32", "int32"]


def test_bfloat16_is_refused(tmp_path: Path) -> None:
    text = "(bfloat16[2, 2] x) => (bfloat16[2, 2] y) { [i] y = trtsmith.MatrixInverse (x) }"
    with pytest.raises(ConversionError, match="input 'x' is bfloat16") as error:
        for_plugin_v2(rewrite(parsed(tmp_path / "m.onnx", text)).model)
    assert "node " in error.value.problems[0].where


def test_the_model_itself_is_as_it_was(tmp_path: Path) -> None:
    model = rewrite(load_model(attention(tmp_path / "m.onnx"))).model
    before = model.proto.SerializeToString(deterministic=True)
    for_plugin_v2(model)
    assert model.proto.SerializeToString(deterministic=True) == before


def test_several_nodes_and_subgraphs(tmp_path: Path) -> None:
    op = "mmcv.MMCVMultiScaleDeformableAttention (value, shapes, starts, locations, weights)"
    text = f"""(float[1, 41, 2, 8] value, int64[2, 2] shapes, int64[2] starts, float[1, 5, 2, 2, 4, 2] locations,
        float[1, 5, 2, 2, 4] weights, bool c) => (float[1, 5, 16] y, float[1, 5, 16] z) {{
        y = {op} z = If (c) <then_branch = t () => (float[1, 5, 16] t) {{ t = {op} }},
            else_branch = e () => (float[1, 5, 16] e) {{ e = {op} }}> }}"""
    proto = expand(for_plugin_v2(rewrite(parsed(tmp_path / "n.onnx", text)).model)).proto
    onnx.checker.check_model(proto, full_check=True)


def test_what_has_no_index_is_left_alone(tmp_path: Path) -> None:
    model = rewrite(load_model(inverse(tmp_path / "m.onnx"))).model
    assert for_plugin_v2(model).proto.graph.node == model.proto.graph.node


def test_a_plugin_whose_output_sizes_depend_on_values_is_refused(tmp_path: Path) -> None:
    model = parsed(tmp_path / "m.onnx", "(float[3, 4] x) => (int64[] y) { [found] y = NonZero (x) }")
    rewritten = rewrite(model, target=RTX).model
    with pytest.raises(ConversionError, match=r"NonZeroPositions.*depend on values"):
        for_plugin_v2(rewritten)
    assert for_plugin_v2(rewrite(model, target=TENSORRT).model).proto.graph.node[0].op_type == "NonZero"
