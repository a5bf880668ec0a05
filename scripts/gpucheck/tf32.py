"""What TF32 costs: a graph whose products read operands rounded to TF32, for onnxruntime to run in float32.

TensorRT and frameworks multiply float32 matrices on tensor cores: operands keep 11 bits of significand, sums are float32.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from converter.infer import infer_shapes, value_types
from converter.modelfile.model import Model
from converter.passes.fresh_names import FreshNames
from converter.passes.scopes import all_graphs

PRODUCTS = {
    "MatMul": (0, 1),
    "Gemm": (0, 1),
    "Conv": (0, 1),
    "ConvTranspose": (0, 1),
    "Einsum": (0, 1, 2, 3),
    "LSTM": (0, 1, 2),
    "GRU": (0, 1, 2),
    "RNN": (0, 1, 2),
    "Attention": (0, 1, 2),
}
"""By operator, the inputs that are factors of a matrix product."""

SPLITTER = np.float32(2**13 + 1)
"""Of Dekker's splitting: x * s - (x * s - x) is x rounded to 24 - 13 = 11 bits (Dekker 1971, 10.1007/BF01397083)."""


def with_tf32_products(model: Model) -> Model | None:
    """The model with every float32 factor of a product rounded; None if it has no such product."""
    model = infer_shapes(model)
    types = {name: entry.elem_type for name, entry in value_types(model.proto).items()}
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    names = FreshNames()
    for graph in all_graphs(proto.graph):
        names.take(v.name for v in (*graph.input, *graph.initializer))
        for node in graph.node:
            names.take(node.output)
    found = [_round_factors(graph, types, names) for graph in all_graphs(proto.graph)]
    return model.with_proto(proto) if any(found) else None


def _round_factors(graph: onnx.GraphProto, types: dict[str, int], names: FreshNames) -> bool:
    made: list[onnx.NodeProto] = []
    count = 0
    for node in graph.node:
        for index in PRODUCTS.get(node.op_type, ()) if node.domain in ("", "ai.onnx") else ():
            if index < len(node.input) and types.get(node.input[index]) == TensorProto.FLOAT:
                rounding, name = _rounding(node.input[index], names)
                made += rounding
                node.input[index] = name
                count += 1
        made.append(node)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in made]
    del graph.node[:]
    graph.node.extend(nodes)
    return bool(count)


def _rounding(source: str, names: FreshNames) -> tuple[list[onnx.NodeProto], str]:
    splitter, scaled, rest, target = (
        names.value(f"{source}/tf32/{part}") for part in ("splitter", "scaled", "rest", "value")
    )
    constant = numpy_helper.from_array(SPLITTER, splitter)
    return [
        helper.make_node("Constant", [], [splitter], value=constant),
        helper.make_node("Mul", [source, splitter], [scaled]),
        helper.make_node("Sub", [scaled, source], [rest]),
        helper.make_node("Sub", [scaled, rest], [target]),
    ], target
