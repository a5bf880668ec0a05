"""The inputs of plugin nodes, as they are in the running model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from trtsmith.converter.bench.native_bench import node_cases
from trtsmith.converter.model.load import load_model
from trtsmith.converter.rewrite.rewrite import rewrite


def test_each_node_is_found_with_what_flows_into_it(tmp_path: Path) -> None:
    """y = inverse(2 x); z = inverse(y) in float16: the second node's input is the first one's output, rounded."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("Inverse", ["twice"], ["y"], "first", domain="trt.plugins"),
        helper.make_node("Cast", ["y"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Inverse", ["half"], ["z"], "second", domain="trt.plugins"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 2])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT16, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("trt.plugins", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    x = np.array([[[2.0, 0.0], [1.0, 4.0]]] * 3, np.float32)
    rewritten = rewrite(load_model(tmp_path / "m.onnx"))
    first, second = node_cases(rewritten.model, {"x": x}, rewritten.io_types)
    assert (first.node, first.op.name, first.dtype) == ("first/MatrixInverse", "MatrixInverse", "float32")
    assert np.array_equal(first.generated["x"], 2 * x)
    assert (second.node, second.dtype) == ("second/MatrixInverse", "float16")
    assert np.allclose(second.generated["x"].astype(float), np.linalg.inv(2 * x), rtol=1e-3)
    assert second.case.inputs(np.random.default_rng(0)).keys() == {"x"}


def test_the_type_is_that_of_the_first_input(tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT16, [3]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, [3]),
    ]
    graph = helper.make_graph(
        [helper.make_node("Compress", ["x", "c"], ["y"], "some", axis=0)],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [None])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "m.onnx",
    )
    feeds = {"x": np.array([1.5, -2.0, 3.0], np.float16), "c": np.array([True, False, True])}
    (found,) = node_cases(rewrite(load_model(tmp_path / "m.onnx")).model, feeds)
    assert (found.op.name, found.dtype, dict(found.case.fields)) == ("SelectedSlices", "float16", {"axis": 0})
    assert found.generated["condition"].dtype == np.bool_


def test_a_model_without_plugin_nodes_is_not_run(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "m.onnx",
    )
    assert node_cases(load_model(tmp_path / "m.onnx"), {}) == []
