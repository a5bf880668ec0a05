"""Small models for the tests of the stages and of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx import helper as oh

from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.load import load_model
from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain

Dims = Sequence[int | str | None] | None


def value(name: str, shape: Dims, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return oh.make_tensor_value_info(name, dtype, shape)


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    domains: Mapping[str, int] | None = None,
    **model: Any,
) -> Path:
    """The model in a file. Custom domains are imported at version 1 where `domains` does not say otherwise."""
    tensors = [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()]
    graph = oh.make_graph(list(nodes), "graph", list(inputs), list(outputs), tensors)
    versions = {node.domain: 1 for node in nodes if node.domain} | dict(domains or {})
    imports = [oh.make_opsetid("", opset), *(oh.make_opsetid(*item) for item in versions.items())]
    onnx.save(oh.make_model(graph, opset_imports=imports, ir_version=9, **model), path)
    return path


def load(path: Path, *arguments: Any, **options: Any) -> Model:
    return load_model(save(path, *arguments, **options))


def written(
    path: Path, graph: str, weights: Mapping[str, np.ndarray] | None = None, *, opset: int = 17
) -> Path:
    """A model of ONNX text in a file: "(float[2] x) => (float[2] y) { y = Relu (x) }", functions behind the graph.

    Every domain that a node names is imported at version 1. weights: further initializers.
    """
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {graph}')
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()
    )
    named = {
        n.domain: None for inner in all_graphs(proto.graph) for n in inner.node if normalise_domain(n.domain)
    }
    proto.opset_import.extend(oh.make_opsetid(domain, 1) for domain in named)
    onnx.save(proto, path)
    return path


def parsed(
    path: Path, graph: str, weights: Mapping[str, np.ndarray] | None = None, *, opset: int = 17
) -> Model:
    return load_model(written(path, graph, weights, opset=opset))


def relu(path: Path, shape: Dims = (1, 3)) -> Path:
    node = oh.make_node("Relu", ["x"], ["y"], name="relu")
    return save(path, [node], [value("x", shape)], [value("y", shape)])


def inverse(path: Path, shape: Dims = (2, 4, 4), *, name: str = "inv") -> Path:
    """Neg, then onnxruntime's Inverse."""
    nodes = [
        oh.make_node("Neg", ["x"], ["n"], name="neg"),
        oh.make_node("Inverse", ["n"], ["y"], name=name, domain="com.microsoft"),
    ]
    return save(path, nodes, [value("x", shape)], [value("y", shape)])


CONVOLUTION: dict[str, Any] = {
    "stride": [1, 1],
    "padding": [1, 1],
    "dilation": [1, 1],
    "groups": 1,
    "deform_groups": 1,
}


def convolution(path: Path, channels: int = 4, rank: int = 4, **attributes: Any) -> Path:
    """mmcv's modulated deformable convolution; an attribute of None is left out."""
    given = {k: v for k, v in (CONVOLUTION | attributes).items() if v is not None}
    node = oh.make_node(
        "MMCVModulatedDeformConv2d", ["x", "o", "m", "w"], ["y"], name="dcn", domain="mmcv", **given
    )
    shapes = {"x": (1, channels, 8, 8)[4 - rank :], "o": (1, 18, 8, 8), "m": (1, 9, 8, 8), "w": (4, 4, 3, 3)}
    return save(path, [node], [value(n, s) for n, s in shapes.items()], [value("y", (1, 4, 8, 8))])


def attention(path: Path, index: int = TensorProto.INT64) -> Path:
    """mmcv's multi-scale deformable attention."""
    kind = "int64" if index == TensorProto.INT64 else "int32"
    text = f"""(float[1, 41, 2, 8] value, {kind}[2, 2] shapes, {kind}[2] starts, float[1, 5, 2, 2, 4, 2] locations,
        float[1, 5, 2, 2, 4] weights) => (float[1, 5, 16] y) {{
        [msda] y = mmcv.MMCVMultiScaleDeformableAttention (value, shapes, starts, locations, weights) }}"""
    return written(path, text)
