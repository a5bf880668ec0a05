"""A model with a branch, sizes computed from shapes, weights and a subgraph; and inputs for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.converter.models import parsed
from trtsmith.converter.model.model import Model

RNG = np.random.default_rng(5)
W1 = RNG.standard_normal((8, 16)).astype(np.float32)
W2 = RNG.standard_normal((16, 8)).astype(np.float32)

NETWORK = """(float[n, 8] x) => (float[m] y) {
    [first] h = MatMul (x, w1) [relu] r = Relu (h) [second] p = MatMul (r, w2) [add] sum = Add (p, x)
    [softmax] soft = Softmax <axis = 1> (sum)
    [top] top = ReduceMax <keepdims = 0> (x) [greater] positive = Greater (top, zero)
    [if] chosen = If (positive) <then_branch = then () => (float[] then_out) { [inner] then_out = Mul (soft, sum) },
        else_branch = other () => (float[] else_out) { else_out = Neg (soft) }>
    [shape] sizes = Shape (x) [count] count = ReduceProd <keepdims = 1> (sizes)
    [reshape] y = Reshape (chosen, count)
}"""


def x(rows: int = 4) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(3).standard_normal((rows, 8)).astype(np.float32)}


def network(path: Path) -> Model:
    return parsed(path, NETWORK, {"w1": W1, "w2": W2, "zero": np.zeros((), np.float32)})


def initializer(graph: onnx.GraphProto, name: str) -> onnx.TensorProto | None:
    return next((tensor for tensor in graph.initializer if tensor.name == name), None)
