"""Finds a model's plugin nodes and their inputs, to time each alone if no engine can hold plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.infer import infer_shapes, value_dtypes
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.ort import run
from trtsmith.converter.rewrite.rewrite import expand
from trtsmith.converter.rewrite.types import IoType, to_engine
from trtsmith.importers.fields import fields_of_node
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Case, OpDef
from trtsmith.importers.registry import by_name

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class NodeCase:
    """A plugin node at certain inputs.

    case:      its fields, and what its inputs were, by port name.
    generated: the same arrays. dtype: of the first input.
    """

    node: str
    op: OpDef
    case: Case
    generated: Arrays
    dtype: str


def node_cases(rewritten: Model, feeds: Arrays, io_types: tuple[IoType, ...] = ()) -> list[NodeCase]:
    """Every plugin node of the main graph, with its inputs as they are when the model is run on the feeds.

    rewritten: the graph that TensorRT gets. feeds: in the model's types. Nodes of subgraphs are left out: they have no
    inputs of their own outside of them. Raises ConversionError where onnxruntime cannot run the graph.
    """
    model = infer_shapes(rewritten)
    nodes = [
        node
        for node in model.proto.graph.node
        if node.domain == PLUGIN_NAMESPACE and node.op_type in by_name()
    ]
    wanted = list(dict.fromkeys(value for node in nodes for value in node.input if value))
    values = _captured(model, wanted, feeds, io_types) if nodes else {}
    found = []
    for node in nodes:
        op = by_name()[node.op_type]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        fields = fields_of_node(op, attributes)
        ports = zip(op.inputs, node.input, strict=False)
        arrays = {port.name: values[value] for port, value in ports if value}
        dtype = str(arrays[op.inputs[0].name].dtype)
        name = node.name or f"node_of_{node.output[0]}"
        case = Case(name, fields, lambda _, arrays=arrays: dict(arrays))  # type: ignore[misc]  # bound above
        found.append(NodeCase(name, op, case, arrays, dtype))
    return found


def _captured(
    model: Model, values: list[str], feeds: Arrays, io_types: tuple[IoType, ...]
) -> dict[str, np.ndarray]:
    """What these values are when the model is run. Each leaves it through an Identity: some are inputs or constants."""
    kinds = value_dtypes(model.proto)
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.output[:]
    for number, value in enumerate(values):
        proto.graph.node.append(helper.make_node("Identity", [value], [f"captured {number}"]))
        elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kinds[value]))
        proto.graph.output.append(helper.make_tensor_value_info(f"captured {number}", elem_type, None))
    names = {value.name for value in proto.graph.input}
    given = to_engine({name: array for name, array in feeds.items() if name in names}, io_types)
    found = run(expand(model.with_proto(proto)), given)
    return {value: found[f"captured {number}"] for number, value in enumerate(values)}
