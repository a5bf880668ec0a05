"""Writes the rewritten graph for TensorRT 8.6 to 10 with V2 plugins.

The node is the same: op_type, `plugin_version`, `plugin_namespace` and the fields as attributes are what a parser of 8.6
looks at. What differs is the types: TensorRT before 10 has neither 64-bit integers nor bfloat16 as plugin inputs.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.model.errors import ConversionError
from trtsmith.converter.model.model import Model
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.problem import Problem
from trtsmith.importers.registry import by_name


def for_plugin_v2(model: Model) -> Model:
    """Index inputs of plugin nodes cast to 32 bits. ConversionError for plugin nodes that V2 does not have, and bfloat16."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    dtypes = value_dtypes(proto)
    problems: list[Problem] = []
    _cast_graph(proto.graph, dtypes, problems)
    if problems:
        raise ConversionError(problems)
    return model.with_proto(proto)


def _cast_graph(graph: onnx.GraphProto, dtypes: dict[str, str], problems: list[Problem]) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                if subgraph.node:
                    _cast_graph(subgraph, dtypes, problems)
        if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name():
            nodes.extend(_casts(node, dtypes, problems))
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _casts(node: onnx.NodeProto, dtypes: dict[str, str], problems: list[Problem]) -> list[onnx.NodeProto]:
    casts = []
    if by_name()[node.op_type].data_dependent:
        problems.append(
            Problem(
                f"the sizes of {node.op_type}'s outputs depend on values",
                f"node {node.name!r} ({node.op_type})",
                "a plugin whose output shapes follow from its input shapes: V2 has no others",
                "build for TensorRT 10 or later without --plugin-v2, or declare the output's sizes in the model",
            )
        )
    for position, port in enumerate(by_name()[node.op_type].inputs[: len(node.input)]):
        value = node.input[position]
        if dtypes.get(value) == "bfloat16":
            problems.append(
                Problem(
                    f"input {port.name!r} is bfloat16",
                    f"node {node.name!r} ({node.op_type})",
                    "float32 or float16, which V2 plugins of TensorRT 8.6 take",
                    "export the model in float16, or build for TensorRT 10 without --plugin-v2",
                )
            )
        if port.type == "I" and dtypes.get(value) != "int32":
            cast = f"{node.name}/{port.name}_int32"
            casts.append(helper.make_node("Cast", [value], [cast], name=cast, to=TensorProto.INT32))
            node.input[position] = cast
    return casts
