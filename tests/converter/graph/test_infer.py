"""Shapes and types through custom nodes, and inference of new nodes in groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.converter.models import parsed
from trtsmith.converter.graph import infer_new, onnx_inference
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes, value_shapes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model


def test_types_behind_a_plugin_node(tmp_path: Path) -> None:
    text = """(float16[n, 3, 3] x) => (float16[] y) {
        a = trtsmith.MatrixInverse (x) b = Transpose <perm = [1, 0, 2]> (a) y = Relu (b) }"""
    model = parsed(tmp_path / "m.onnx", text)
    inferred = infer_shapes(model).proto
    assert value_shapes(inferred)["b"] == (3, None, 3) and value_shapes(inferred)["y"] == (3, None, 3)
    assert value_dtypes(inferred) == dict.fromkeys("xaby", "float16")
    assert "b" not in value_shapes(model.proto)  # the model itself is as it was


def test_values_of_subgraphs_and_initializers(tmp_path: Path) -> None:
    branches = [f"{name}_branch = {name} () => (float[] t) {{ t = Add (x, w) }}" for name in ("then", "else")]
    text = f"(float[2, 1] x, bool c) => (float[] y) {{ y = If (c) <{', '.join(branches)}> }}"
    model = parsed(tmp_path / "m.onnx", text, {"w": np.ones((1, 5), np.float32)})
    shapes = value_shapes(infer_shapes(model).proto)
    assert (shapes["w"], shapes["t"], shapes["c"]) == ((1, 5), (2, 5), ())


@pytest.mark.parametrize("stride", ["1", '"a"', "[1]", "[0, 0]", "[1, 1, 1]", "1.5"])
def test_wrong_nodes_leave_values_unknown(stride: str, tmp_path: Path) -> None:
    text = f"""(float[1, 1, 3, 3] x, float[1, 18, 1, 1] o, float[1, 1, 3, 3] w) => (float[] y) {{
        y = trtsmith.DeformableConvolution <stride = {stride}, padding = [0, 0, 0, 0], dilation = [1, 1], groups = 1,
            offset_groups = 1> (x, o, w) }}"""
    assert value_shapes(infer_shapes(parsed(tmp_path / "m.onnx", text)).proto)["x"] == (1, 1, 3, 3)


def test_a_size_that_is_a_list_leaves_the_output_unknown(tmp_path: Path) -> None:
    text = """(float[2, 6] r, float[1, 1, 3, 3] x) => (float[] y) {
        y = trtsmith.PyramidRotatedRegionAlign <output_height = 3, output_width = [1, 2], sampling_ratio = 2,
            finest_scale = 4, aligned = 1, roi_scale_factor = 1.25, strides = [4.0], clockwise = 0> (r, x) }"""
    assert value_shapes(infer_shapes(parsed(tmp_path / "m.onnx", text)).proto).get("y") is None


def test_onnx_learns_no_operator_for_its_inference() -> None:
    """Nodes in branches and functions keep their names, and what the model imports stays as it is."""
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 15, "com.microsoft" : 1, "trtsmith" : 1, "local" : 1]>
        g (float[2, 3] x, bool c, float[3] s, float[3] b) => (float[] y)
        {
          f = com.microsoft.BiasGelu (x, b)
          i = If (c) <then_branch = t () => (float[] p) { q = LayerNormalization (f, s, b) p = Relu (q) },
                      else_branch = e () => (float[] p) { p = com.microsoft.QuickGelu <alpha = 1.0> (f) }>
          m = local.Own (i)
          y = local.Gelu (m)
        }
        <domain: "local", opset_import: ["" : 15, "trtsmith" : 1]> Own (a) => (b)
        {
          k = Constant <value = float[1, 2, 2] {1, 0, 0, 1}> ()
          n = trtsmith.MatrixInverse (k)
          z = ReduceSum <keepdims = 0> (n)
          b = Add (a, z)
        }
        <domain: "local", opset_import: ["" : 15]> Gelu (a) => (b) { b = Neg (a) }"""
    )
    inferred = onnx_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    shape = inferred.graph.output[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [2, 3]
    for graph in all_graphs(inferred.graph):
        del graph.value_info[:]
        for output in graph.output:
            output.type.tensor_type.ClearField("shape")
    assert inferred == model
    assert not {s.domain for s in onnx.defs.get_all_schemas_with_history()} & {"com.microsoft", "trtsmith"}


BODY = """<ir_version: 10, opset_import: ["" : 17]> g (float[batch, 4] x) => (float[m, n] y) <int64[1] last = {-1}> {
    a = Relu (x)  shape = Shape (a)  wanted = Concat <axis = 0> (shape, last)  b = Reshape (a, wanted)
    c = ReduceSum <keepdims = 0> (b)  kept = NonZero (b)  d = Cast <to = 1> (kept)  y = Add (d, c)
}"""


@pytest.mark.parametrize("size", [1, 2, 3])
def test_types_do_not_depend_on_the_size_of_groups(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def types() -> dict[str, bytes]:
        graph = Graph(Model(onnx.parser.parse_model(BODY), Path("m.onnx"), {}))
        graph.stale.update(dict.fromkeys(graph.root.nodes))
        graph.infer()
        return {name: value.type.SerializeToString() for name, value in graph.root.types.items()}

    whole = types()
    assert {"wanted", "b", "kept", "y"} <= whole.keys()
    monkeypatch.setattr(infer_new, "_GROUP", size)
    assert types() == whole
