"""Convolutions that are not rewritten over blocks of pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import rewrite
from trtsmith.converter.rewrite.target import RTX, TENSORRT, Target


def convolution(
    shape: tuple[int | str, ...] = (1, 3, 256, 256),
    taps: tuple[int, int] = (7, 7),
    before: str = "",
    computed: bool = False,
    **attributes: object,
) -> Model:
    group = attributes.get("group", 1)
    assert isinstance(group, int)
    weights = np.ones((4, int(shape[1]) // group, *taps), np.float32)
    nodes = []
    data, kernel = "x", "k"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    initializers = [numpy_helper.from_array(weights, "k")]
    if before == "DequantizeLinear":
        inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, shape)]
        initializers.append(numpy_helper.from_array(np.float32(0.1), "scale"))
        nodes.append(helper.make_node("DequantizeLinear", ["x", "scale"], ["d"]))
        data = "d"
    if computed:
        inputs.append(helper.make_tensor_value_info("k", TensorProto.FLOAT, weights.shape))
        del initializers[0]
    given = {"strides": [2, 2], "pads": [3, 3, 3, 3]} | attributes
    nodes.append(helper.make_node("Conv", [data, kernel], ["y"], **given))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return Model(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]),
        Path("m.onnx"),
        {},
    )


def strides(model: Model, target: Target = RTX) -> list[int]:
    graph = rewrite(model, target).model.proto.graph
    node = next(node for node in graph.node if node.op_type == "Conv")
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return list(found.get("strides", [1, 1]))


def test_taken_for_the_target_that_is_slow() -> None:
    assert strides(convolution()) == [1, 1]
    assert strides(convolution(), TENSORRT) == [2, 2]


@pytest.mark.parametrize(
    ("kept", "model"),
    {
        "more channels": convolution((1, 8, 256, 256)),
        "of three taps": convolution(taps=(3, 3), pads=[1, 1, 1, 1]),
        "dilated": convolution(dilations=[2, 2]),
        "in groups": convolution((1, 4, 256, 256), group=2),
        "a small image": convolution((1, 3, 64, 64)),
        "an image of any size": convolution((1, 3, "h", "w")),
        "weights of run time": convolution(computed=True),
        "of 8 bits": convolution(before="DequantizeLinear"),
        "padded by a rule": convolution(auto_pad="SAME_UPPER", pads=[0, 0, 0, 0]),
    }.items(),
)
def test_left_alone(kept: str, model: Model) -> None:
    del kept
    assert strides(model) == [2, 2]


def test_a_stride_of_one_is_left_alone() -> None:
    result = rewrite(convolution(strides=[1, 1]), RTX)
    assert result.rewrites == ()
