"""Writes nodes that TensorRT-RTX 1.7.1 refuses, each kind for its own cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Nodes = list[onnx.NodeProto]


@dataclass
class Piece:
    """Nodes on their way into a graph. value: read by the first of them; float32 of [batch, channels, height, width]."""

    value: str
    channels: int
    nodes: Nodes = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, op_type: str, *inputs: str, output: str, **attributes: Any) -> str:
        """One more; its name is that of its output."""
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], output, **attributes))
        return output

    def constant(self, name: str, values: object, dtype: type) -> str:
        self.initializers.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name


def squeeze_without_axes(piece: Piece) -> str:
    """Of a batch that is 1 by the profile only: "requires dimension 0 to not be 1"."""
    squeezed = piece.node("Squeeze", piece.value, output="fault/squeeze")
    shape = piece.node("Shape", piece.value, output="fault/shape")
    return piece.node("Reshape", squeezed, shape, output="fault/out")


def if_on_a_size(piece: Piece) -> str:
    """Whose branch for a last size of 1 squeezes it, where it never is 1: both branches are built."""
    weights = np.ones((piece.channels, piece.channels, 3, 3)).tolist()
    held = piece.constant("fault/w", weights, np.float32)
    convolved = piece.node("Conv", piece.value, held, output="fault/conv", pads=[1] * 4)
    shape = piece.node("Shape", convolved, output="fault/shape")
    last = piece.node(
        "Gather", shape, piece.constant("fault/last", -1, np.int64), output="fault/size", axis=0
    )
    one = piece.constant("fault/one", 1, np.int64)
    condition = piece.node("Equal", last, one, output="fault/is_one")
    axis = piece.constant("fault/axis", [-1], np.int64)
    branches = {}
    for branch, op_type, inputs in (
        ("then", "Squeeze", [convolved, axis]),
        ("else", "Identity", [convolved]),
    ):
        name = f"fault/{branch}"
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        node = helper.make_node(op_type, inputs, [name], name)
        branches[f"{branch}_branch"] = helper.make_graph([node], branch, [], [result])
    return piece.node("If", condition, output="fault/out", **branches)


def scatter_of_more_rows(piece: Piece) -> str:
    """ScatterElements with four rows of indices into a batch of 1 that is dynamic: "the extent of dimension 0"."""
    shape = (4, piece.channels, 1, 1)
    indices = piece.constant("fault/indices", np.zeros(shape).tolist(), np.int64)
    updates = piece.constant("fault/updates", np.zeros(shape).tolist(), np.float32)
    return piece.node("ScatterElements", piece.value, indices, updates, output="fault/out", axis=0)


def gathered_int8(piece: Piece) -> str:
    """An int8 table that Gather reads before it is dequantized: "Quantized constant ... is only allowed before DQ"."""
    table = piece.constant("fault/table", np.arange(-20, 20).reshape(40, 1).tolist(), np.int8)
    most = piece.node("ReduceMax", piece.value, output="fault/most", axes=[0, 2, 3], keepdims=0)
    clipped = piece.node(
        "Clip",
        most,
        piece.constant("fault/low", 0, np.float32),
        piece.constant("fault/high", 39, np.float32),
        output="fault/clipped",
    )
    index = piece.node("Cast", clipped, output="fault/index", to=TensorProto.INT64)
    gathered = piece.node("Gather", table, index, output="fault/gathered")
    scale = piece.constant("fault/scale", 0.1, np.float32)
    zero = piece.constant("fault/zero", 0, np.int8)
    real = piece.node("DequantizeLinear", gathered, scale, zero, output="fault/real")
    shape = piece.constant("fault/form", [1, piece.channels, 1, 1], np.int64)
    formed = piece.node("Reshape", real, shape, output="fault/formed")
    return piece.node("Add", piece.value, formed, output="fault/out")


def loop_until_a_counter(piece: Piece) -> str:
    """A loop that ends when its counter reaches a size, and stacks its results: "no trip limit was set"."""
    shape = piece.node("Shape", piece.value, output="fault/shape")
    bound = piece.node("Gather", shape, piece.constant("fault/axis", 2, np.int64), output="fault/bound")
    one, zero = piece.constant("fault/one", 1, np.int64), piece.constant("fault/zero", 0, np.int64)
    true = piece.constant("fault/true", True, np.bool_)
    most = piece.constant("fault/most", 2**62, np.int64)
    counter, after, goes_on, row = (f"fault/{name}" for name in ("counter", "after", "goes_on", "row"))
    body = helper.make_graph(
        [
            helper.make_node("Add", [counter, one], [after], after),
            helper.make_node("Less", [after, bound], [goes_on], goes_on),
            helper.make_node("Gather", [piece.value, counter], [f"{row}/read"], f"{row}/read", axis=2),
            helper.make_node("Tanh", [f"{row}/read"], [row], row),
        ],
        "body",
        [
            helper.make_tensor_value_info("fault/iteration", TensorProto.INT64, []),
            helper.make_tensor_value_info("fault/condition", TensorProto.BOOL, []),
            helper.make_tensor_value_info(counter, TensorProto.INT64, []),
        ],
        [
            helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []),
            helper.make_tensor_value_info(after, TensorProto.INT64, []),
            helper.make_tensor_value_info(row, TensorProto.FLOAT, None),
        ],
    )
    piece.nodes.append(
        helper.make_node("Loop", [most, true, zero], ["fault/end", "fault/rows"], "fault/loop", body=body)
    )
    return piece.node("Transpose", "fault/rows", output="fault/out", perm=[1, 2, 0, 3])


FAULTS: Mapping[str, Callable[[Piece], str]] = {
    "squeeze_without_axes": squeeze_without_axes,
    "if_on_a_size": if_on_a_size,
    "scatter_of_more_rows": scatter_of_more_rows,
    "gathered_int8": gathered_int8,
    "loop_until_a_counter": loop_until_a_counter,
}
"""By name: what writes the nodes, and gives the value that comes out, of the shape that went in."""
