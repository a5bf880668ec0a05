"""Makes a transformer of a given size, with the names and size computations that an exporter writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, TOKENS = 32, 4, 16


def large_network(nodes: int) -> onnx.ModelProto:
    """A model of about `nodes` nodes: attention blocks with a custom operator each (onnxruntime's
    SkipLayerNormalization).
    """
    made: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {
        "heads": np.array([0, 0, HEADS, WIDTH // HEADS]),
        "zero": np.array(0),
        "one": np.array(1),
        "width": np.array([WIDTH]),
    }
    random = np.random.default_rng(0)
    for name, shape in {
        "w": (WIDTH, WIDTH),
        "up": (WIDTH, 2 * WIDTH),
        "down": (2 * WIDTH, WIDTH),
        "b": (WIDTH,),
    }.items():
        weights[name] = (random.standard_normal(shape) * 0.1).astype(np.float32)
    x, block = "tokens", 0
    while len(made) < nodes - 15:
        x = _block(made, x, f"/model/encoder/layers.{block}")
        block += 1
    while len(made) < nodes:
        x = _node(made, "Relu", [x], f"/model/head/Relu_{len(made)}")
    made[-1].output[0] = "features"
    sizes: list[str | int | None] = ["batch", "length", WIDTH]
    graph = helper.make_graph(
        made,
        "network",
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, sizes)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _node(
    made: list[onnx.NodeProto], op: str, inputs: list[str], name: str, domain: str = "", **attributes: Any
) -> str:
    output = f"{name}_output_0"
    made.append(helper.make_node(op, inputs, [output], name=name, domain=domain, **attributes))
    return output


def _block(made: list[onnx.NodeProto], x: str, at: str) -> str:
    def node(op: str, *inputs: str, name: str = "", domain: str = "", **attributes: Any) -> str:
        return _node(made, op, list(inputs), f"{at}/{name or op}", domain, **attributes)

    parts = []
    for which in ("q", "k", "v"):
        projected = node("MatMul", x, "w", name=f"attention/{which}/MatMul")
        split = node("Reshape", projected, "heads", name=f"attention/{which}/Reshape")
        perm = [0, 2, 3, 1] if which == "k" else [0, 2, 1, 3]
        parts.append(node("Transpose", split, name=f"attention/{which}/Transpose", perm=perm))
    shape = node("Shape", x, name="attention/Shape")
    batch = node("Gather", shape, "zero", name="attention/Gather")
    length = node("Gather", shape, "one", name="attention/Gather_1")
    sizes = [
        node("Unsqueeze", one, "zero", name=f"attention/Unsqueeze_{i}")
        for i, one in enumerate((batch, length))
    ]
    target = node("Concat", *sizes, "width", name="attention/Concat", axis=0)
    scores = node("MatMul", parts[0], parts[1], name="attention/scores/MatMul")
    weights = node("Softmax", scores, name="attention/Softmax", axis=-1)
    mixed = node("MatMul", weights, parts[2], name="attention/mix/MatMul")
    turned = node("Transpose", mixed, name="attention/Transpose", perm=[0, 2, 1, 3])
    flat = node("Reshape", turned, target, name="attention/Reshape")
    out = node("MatMul", flat, "w", name="attention/out/MatMul")
    normed = node(
        "SkipLayerNormalization", out, x, "b", "b", name="norm/SkipLayerNormalization", domain="com.microsoft"
    )
    up = node("MatMul", normed, "up", name="mlp/up/MatMul")
    gelu = node("Gelu", up, name="mlp/act/Gelu", domain="com.microsoft")
    return node("Add", node("MatMul", gelu, "down", name="mlp/down/MatMul"), normed, name="mlp/Add")
