"""Shapes and types through custom nodes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto
from onnx import helper as oh

from tests.converter.models import load, value
from trtsmith.converter.graph.infer import infer_shapes, value_dtypes, value_shapes


def test_types_behind_a_plugin_node(tmp_path: Path) -> None:
    nodes = [
        oh.make_node("MatrixInverse", ["x"], ["a"], domain="trtsmith"),
        oh.make_node("Transpose", ["a"], ["b"], perm=[1, 0, 2]),
        oh.make_node("Relu", ["b"], ["y"]),
    ]
    x, y = (value(n, s, TensorProto.FLOAT16) for n, s in (("x", ("n", 3, 3)), ("y", None)))
    model = load(tmp_path / "m.onnx", nodes, [x], [y])
    inferred = infer_shapes(model).proto
    assert value_shapes(inferred)["b"] == (3, None, 3) and value_shapes(inferred)["y"] == (3, None, 3)
    assert value_dtypes(inferred) == dict.fromkeys("xaby", "float16")
    assert "b" not in value_shapes(model.proto)  # the model itself is as it was
    assert not onnx.defs.has("MatrixInverse", "trtsmith")  # and so is onnx


def test_values_of_subgraphs_and_initializers(tmp_path: Path) -> None:
    import numpy as np

    branch = oh.make_graph([oh.make_node("Add", ["x", "w"], ["t"])], "b", [], [value("t", None)])
    node = oh.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    inputs = [value("x", (2, 1)), value("c", (), TensorProto.BOOL)]
    model = load(tmp_path / "m.onnx", [node], inputs, [value("y", None)], {"w": np.ones((1, 5), np.float32)})
    shapes = value_shapes(infer_shapes(model).proto)
    assert (shapes["w"], shapes["t"], shapes["c"]) == ((1, 5), (2, 5), ())


@pytest.mark.parametrize("stride", [1, "a", [1], [0, 0], [1, 1, 1], 1.5])
def test_wrong_nodes_leave_values_unknown(stride: object, tmp_path: Path) -> None:
    attributes = {"stride": stride, "padding": [0] * 4, "dilation": [1, 1], "groups": 1, "offset_groups": 1}
    node = oh.make_node("DeformableConvolution", ["x", "o", "w"], ["y"], domain="trtsmith", **attributes)
    inputs = [value("x", (1, 1, 3, 3)), value("o", (1, 18, 1, 1)), value("w", (1, 1, 3, 3))]
    model = load(tmp_path / "m.onnx", [node], inputs, [value("y", None)])
    assert value_shapes(infer_shapes(model).proto)["x"] == (1, 1, 3, 3)
