"""A small encoder as frameworks export it: what onnxruntime's optimiser fuses, written out."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, WORDS, PLACES = 16, 2, 30, 12


class _Builder:
    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(0)
        self._count = 0

    def add(self, op_type: str, *inputs: str, **attributes: object) -> str:
        self._count += 1
        name = f"v{self._count}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], f"n{self._count}", **attributes))
        return name

    def constant(self, value: np.ndarray) -> str:
        self._count += 1
        self.tensors.append(numpy_helper.from_array(value, f"c{self._count}"))
        return f"c{self._count}"

    def weight(self, *shape: int) -> str:
        return self.constant((self._rng.standard_normal(shape) * 0.3).astype(np.float32))

    def scalar(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def unsqueezed(self, data: str, axis: int) -> str:
        if self.opset < 13:
            return self.add("Unsqueeze", data, axes=[axis])
        return self.add("Unsqueeze", data, self.constant(np.array([axis])))

    def mean(self, data: str) -> str:
        if self.opset < 18:
            return self.add("ReduceMean", data, axes=[-1])
        return self.add("ReduceMean", data, self.constant(np.array([-1])))

    def linear(self, data: str, wide: int, out: int) -> str:
        return self.add("Add", self.add("MatMul", data, self.weight(wide, out)), self.weight(out))

    def norm(self, data: str) -> str:
        centred = self.add("Sub", data, self.mean(data))
        variance = self.mean(self.add("Pow", centred, self.scalar(2.0)))
        deviation = self.add("Sqrt", self.add("Add", variance, self.scalar(1e-5)))
        unit = self.add("Div", centred, deviation)
        return self.add("Add", self.add("Mul", unit, self.weight(HIDDEN)), self.weight(HIDDEN))

    def gelu(self, data: str) -> str:
        erf = self.add("Erf", self.add("Div", data, self.scalar(2**0.5)))
        product = self.add("Mul", data, self.add("Add", erf, self.scalar(1.0)))
        return self.add("Mul", product, self.scalar(0.5))

    def attention(self, data: str, mask: str) -> str:
        shape = self.constant(np.array([0, 0, HEADS, HIDDEN // HEADS]))
        parts = [self.add("Reshape", self.linear(data, HIDDEN, HIDDEN), shape) for _ in range(3)]
        query, value = (self.add("Transpose", parts[i], perm=[0, 2, 1, 3]) for i in (0, 2))
        key = self.add("Transpose", parts[1], perm=[0, 2, 3, 1])
        scaled = self.add("Div", self.add("MatMul", query, key), self.scalar((HIDDEN // HEADS) ** 0.5))
        weights = self.add("Softmax", self.add("Add", scaled, mask), axis=3)
        rows = self.add("Transpose", self.add("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.add("Reshape", rows, self.constant(np.array([0, 0, HIDDEN])))


def encoder(layers: int = 2, opset: int = 13) -> onnx.ModelProto:
    """BERT's encoder: ids, kinds (segments) and mask of shape (batch, length), out come the states."""
    b = _Builder(opset)
    words = b.add("Gather", b.weight(WORDS, HIDDEN), "ids")
    kinds = b.add("Gather", b.weight(2, HIDDEN), "kinds")
    length = b.add("Gather", b.add("Shape", "ids"), b.constant(np.array(1)), axis=0)
    zero = b.constant(np.array([0]))
    places = b.add("Slice", b.weight(PLACES, HIDDEN), zero, b.unsqueezed(length, 0), zero)
    data = b.norm(b.add("Add", b.add("Add", words, places), kinds))
    kept = b.add("Cast", b.unsqueezed(b.unsqueezed("mask", 1), 2), to=TensorProto.FLOAT)
    mask = b.add("Mul", b.add("Sub", b.scalar(1.0), kept), b.scalar(-10000.0))
    for _ in range(layers):
        attended = b.linear(b.attention(data, mask), HIDDEN, HIDDEN)
        data = b.norm(b.add("Add", attended, data))
        wide = b.gelu(b.linear(data, HIDDEN, 2 * HIDDEN))
        data = b.norm(b.add("Add", b.linear(wide, 2 * HIDDEN, HIDDEN), data))
    b.nodes.append(helper.make_node("Identity", [data], ["states"]))
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "length"])
        for n in ("ids", "kinds", "mask")
    ]
    outputs = [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["batch", "length", HIDDEN])]
    graph = helper.make_graph(b.nodes, "encoder", inputs, outputs, b.tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def encoder_inputs(batch: int = 2, length: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    mask = np.arange(length) < np.array([[length], [length - 2]])[:batch]
    return {
        "ids": rng.integers(0, WORDS, (batch, length)),
        "kinds": rng.integers(0, 2, (batch, length)),
        "mask": mask.astype(np.int64),
    }
