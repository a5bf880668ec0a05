"""Small networks in ONNX text, and functions that describe a reduced graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.precision.emulate import emulated
from trtsmith.converter.rewrite.precision.formats import Format
from trtsmith.converter.rewrite.precision.reduce import Reduction, reduce_precision
from trtsmith.converter.rewrite.precision.widen import widen_precision

T = TensorProto


def network(
    folder: Path, body: str, weights: Mapping[str, np.ndarray] | None = None, *, opset: int = 20
) -> Model:
    """`body`: "(float[N,4] x) => (float[N,4] y) { y = Relu (x) }", with optional value types."""
    text = f'<ir_version: 8, opset_import: ["" : {opset}, "trtsmith" : 1]> g {body}'
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (weights or {}).items()
    )
    path = folder / "network.onnx"
    onnx.save(proto, path)
    return infer_shapes(load_model(path))


@dataclass(frozen=True)
class Changed(Reduction):
    """The model that a pass leaves, and what the pass says."""

    model: Model


def reduce_model(model: Model, fmt: Format, **options: Any) -> Changed:
    graph = Graph(model)
    said = reduce_precision(graph, fmt, **options)
    return Changed(said.report, said.io_types, graph.model())


def widen_model(model: Model, **options: Any) -> Changed:
    graph = Graph(model)
    said = widen_precision(graph, **options)
    return Changed(said.report, said.io_types, graph.model())


def error_of(reduced: Model, model: Model, feeds: Mapping[str, np.ndarray]) -> float:
    """Of the reduced model's `y`, whose rounding onnxruntime emulates, relative to the model's own."""
    found, exact = run(emulated(reduced), feeds, optimise=False)["y"], run(model, feeds)["y"]
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def types_of(model: Model) -> dict[str, int]:
    """Element type by value, of all graphs."""
    types: dict[str, int] = {}
    for graph in all_graphs(model.proto.graph):
        types |= {t.name: t.data_type for t in graph.initializer}
        for value in (*graph.input, *graph.value_info, *graph.output):
            types[value.name] = value.type.tensor_type.elem_type
    return types


def made_in(model: Model) -> dict[str, int]:
    """By node name, the element type of its first output; Casts are left out."""
    types = types_of(model)
    return {
        node.name: types[node.output[0]]
        for graph in all_graphs(model.proto.graph)
        for node in graph.node
        if node.op_type != "Cast"
    }


def casts(model: Model) -> list[onnx.NodeProto]:
    return [n for graph in all_graphs(model.proto.graph) for n in graph.node if n.op_type == "Cast"]
