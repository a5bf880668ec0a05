"""A small encoder as exported by frameworks, before onnxruntime's optimiser fuses it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trtsmith.importers.builder import Builder, Value

HIDDEN, HEADS, WORDS, PLACES = 16, 2, 30, 12


class _Layers(Builder):
    def __init__(self, opset: int) -> None:
        super().__init__(opset)
        self._rng = np.random.default_rng(0)

    def weight(self, *shape: int) -> np.ndarray:
        return (self._rng.standard_normal(shape) * 0.3).astype(np.float32)

    def linear(self, data: Value, wide: int, out: int) -> Value:
        return self.MatMul(data, self.weight(wide, out)) + self.weight(out)

    def norm(self, data: Value) -> Value:
        centred = data - self.ReduceMean(data, axes=[-1])
        variance = self.ReduceMean(self.Pow(centred, 2.0), axes=[-1])
        return centred / self.Sqrt(variance + 1e-5) * self.weight(HIDDEN) + self.weight(HIDDEN)

    def gelu(self, data: Value) -> Value:
        return data * (self.Erf(data / 2**0.5) + 1.0) * 0.5

    def attention(self, data: Value, mask: Value) -> Value:
        shape = [0, 0, HEADS, HIDDEN // HEADS]
        parts = [self.Reshape(self.linear(data, HIDDEN, HIDDEN), shape) for _ in range(3)]
        query, value = (self.Transpose(parts[i], perm=[0, 2, 1, 3]) for i in (0, 2))
        scores = self.MatMul(query, self.Transpose(parts[1], perm=[0, 2, 3, 1])) / (HIDDEN // HEADS) ** 0.5
        rows = self.MatMul(self.Softmax(scores + mask, axis=3), value)
        return self.Reshape(self.Transpose(rows, perm=[0, 2, 1, 3]), [0, 0, HIDDEN])


def encoder(layers: int = 2, opset: int = 13) -> onnx.ModelProto:
    """BERT's encoder: ids, kinds (segments) and mask of shape (batch, length), out come the states."""
    g = _Layers(opset)
    words = g.Gather(g.weight(WORDS, HIDDEN), "ids")
    kinds = g.Gather(g.weight(2, HIDDEN), "kinds")
    length = g.Unsqueeze(g.Gather(g.Shape("ids"), 1, axis=0), axes=[0])
    data = g.norm(words + g.Slice(g.weight(PLACES, HIDDEN), [0], length, [0]) + kinds)
    kept = g.Cast(g.Unsqueeze(g.Unsqueeze("mask", axes=[1]), axes=[2]), to="float32")
    mask = (1.0 - kept) * -10000.0
    for _ in range(layers):
        data = g.norm(g.linear(g.attention(data, mask), HIDDEN, HIDDEN) + data)
        data = g.norm(g.linear(g.gelu(g.linear(data, HIDDEN, 2 * HIDDEN)), 2 * HIDDEN, HIDDEN) + data)
    constants = [node for node in g.nodes if node.op_type == "Constant"]
    weights = [
        numpy_helper.from_array(numpy_helper.to_array(n.attribute[0].t), n.output[0]) for n in constants
    ]
    nodes = [node for node in g.nodes if node.op_type != "Constant"]
    nodes.append(helper.make_node("Identity", [data.name], ["states"]))
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "length"])
        for n in ("ids", "kinds", "mask")
    ]
    outputs = [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["batch", "length", HIDDEN])]
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def encoder_inputs(batch: int = 2, length: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    mask = np.arange(length) < np.array([[length], [length - 2]])[:batch]
    return {
        "ids": rng.integers(0, WORDS, (batch, length)),
        "kinds": rng.integers(0, 2, (batch, length)),
        "mask": mask.astype(np.int64),
    }
