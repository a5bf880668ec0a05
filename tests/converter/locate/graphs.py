"""A model with a branch, sizes computed from shapes, weights, and a node with a subgraph; and inputs for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper as oh

from tests.converter.models import load, value
from trtsmith.converter.model.model import Model

RNG = np.random.default_rng(5)
W1 = RNG.standard_normal((8, 16)).astype(np.float32)
W2 = RNG.standard_normal((16, 8)).astype(np.float32)


def x(rows: int = 4) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(3).standard_normal((rows, 8)).astype(np.float32)}


def network(path: Path) -> Model:
    """x [n,8] -> MatMul, Relu, MatMul, Add(x), Softmax, If (then: Mul by the softmax's input, else: Neg), Reshape to 1-D."""
    then = oh.make_graph(
        [oh.make_node("Mul", ["soft", "sum"], ["then_out"], name="inner")],
        "then",
        [],
        [value("then_out", None)],
    )
    other = oh.make_graph(
        [oh.make_node("Neg", ["soft"], ["else_out"])], "else", [], [value("else_out", None)]
    )
    nodes = [
        oh.make_node("MatMul", ["x", "w1"], ["h"], name="first"),
        oh.make_node("Relu", ["h"], ["r"], name="relu"),
        oh.make_node("MatMul", ["r", "w2"], ["p"], name="second"),
        oh.make_node("Add", ["p", "x"], ["sum"], name="add"),
        oh.make_node("Softmax", ["sum"], ["soft"], name="softmax", axis=1),
        oh.make_node("ReduceMax", ["x"], ["top"], name="top", keepdims=0),
        oh.make_node("Greater", ["top", "zero"], ["positive"], name="greater"),
        oh.make_node("If", ["positive"], ["chosen"], name="if", then_branch=then, else_branch=other),
        oh.make_node("Shape", ["x"], ["sizes"], name="shape"),
        oh.make_node("ReduceProd", ["sizes"], ["count"], name="count", keepdims=1),
        oh.make_node("Reshape", ["chosen", "count"], ["y"], name="reshape"),
    ]
    return load(
        path,
        nodes,
        [value("x", ["n", 8])],
        [value("y", ["m"])],
        {"w1": W1, "w2": W2, "zero": np.zeros((), np.float32)},
    )


def initializer(graph: onnx.GraphProto, name: str) -> onnx.TensorProto | None:
    return next((tensor for tensor in graph.initializer if tensor.name == name), None)
