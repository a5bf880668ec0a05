"""Inlines functions for one node of a model: the bodies by which ONNX defines operators, and expansions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx
from onnx import helper, inliner

from trtsmith.converter.graph.renaming import rename_values
from trtsmith.converter.rewrite.engine.node_rule import NodeView, schema_defaults

_DOMAIN = "trtsmith.body"


def body_nodes(node: NodeView) -> list[onnx.NodeProto] | None:
    """Returns the nodes of the body, in the model's opset, with this node's values and attributes; None if there is no body.

    ONNX makes some bodies for a node's attributes and the types of its inputs; there is none where it lacks a type.
    """
    call = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    call.input.extend(f"x{i}" if name else "" for i, name in enumerate(node.inputs))
    call.output.extend(f"y{i}" if name else "" for i, name in enumerate(node.outputs))
    call.attribute.extend(node.proto.attribute)
    types = [(node.type_proto(i) or onnx.TypeProto()).SerializeToString() for i in range(len(node.inputs))]
    made = _body(call.SerializeToString(deterministic=True), tuple(types), node.version, node.opset)
    if made is None:
        return None
    return _named(node, call, [onnx.NodeProto.FromString(text) for text in made])


def function_nodes(node: NodeView, function: onnx.FunctionProto) -> list[onnx.NodeProto]:
    """Returns the nodes of any function of the node's connected inputs and its outputs, with this node's values."""
    call = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    call.input.extend(f"x{i}" for i, name in enumerate(node.inputs) if name)
    call.output.extend(f"y{i}" if name else "" for i, name in enumerate(node.outputs))
    made = _inlined(call, function, 1, node.opset)
    call.input[:] = [f"x{i}" if name else "" for i, name in enumerate(node.inputs)]
    return _named(node, call, made)


def _named(node: NodeView, call: onnx.NodeProto, nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Nodes that speak of the call's values, with the node's own in their place, and fresh ones for all others."""
    names = dict(zip((*call.input, *call.output), (*node.inputs, *node.outputs), strict=True))
    values = dict.fromkeys(name for proto in nodes for name in (*proto.input, *proto.output) if name)
    renamed = {name: names.get(name) or node.fresh(name) for name in values}
    for proto in nodes:
        rename_values(proto, {**names, **renamed}, node.fresh)
    return nodes


@lru_cache(maxsize=512)
def _body(call_text: bytes, types: tuple[bytes, ...], version: int, opset: int) -> tuple[bytes, ...] | None:
    """The nodes of a body whose inputs are called x0, x1, ... and outputs y0, y1, ...: a model has many of a kind."""
    call = onnx.NodeProto.FromString(call_text)
    function = _function(call, types, version, opset)
    if function is None:
        return None
    return tuple(node.SerializeToString() for node in _inlined(call, function, version, opset))


def _function(
    call: onnx.NodeProto, types: tuple[bytes, ...], version: int, opset: int
) -> onnx.FunctionProto | None:
    try:
        schema: Any = onnx.defs.get_schema(call.op_type, version, call.domain)
    except onnx.defs.SchemaError:
        return None
    text = b""
    if schema.has_function:
        text = schema.get_function_with_opset_version(_latest(schema.function_opset_versions, opset))
    elif schema.has_context_dependent_function:
        text = schema.get_context_dependent_function_with_opset_version(
            _latest(schema.context_dependent_function_opset_versions, opset),
            call.SerializeToString(),
            list(types),
        )
    function = onnx.FunctionProto.FromString(text)
    # Where a node's attributes and types contradict each other, onnx ends halfway, without the parameters.
    whole = len(function.input) >= len(call.input) and len(function.output) >= len(call.output)
    return function if text and whole else None


def _latest(versions: list[int], opset: int) -> int:
    """The newest body that was written for this opset or an older one."""
    return max((version for version in versions if version <= opset), default=opset)


def _inlined(
    node: onnx.NodeProto, function: onnx.FunctionProto, version: int, opset: int
) -> list[onnx.NodeProto]:
    """The body's nodes with the values of the node in the place of its parameters, by onnx's own inliner."""
    function.domain, function.name = _DOMAIN, "body"
    opset = max([opset, *(o.version for o in function.opset_import if not o.domain)])
    del function.opset_import[:]
    function.opset_import.append(helper.make_opsetid("", opset))
    call = onnx.NodeProto()
    call.CopyFrom(node)
    call.domain, call.op_type, call.name = _DOMAIN, "body", ""
    declared = set(function.attribute) | {a.name for a in function.attribute_proto}
    given = {a.name for a in node.attribute}
    defaults = schema_defaults(node.domain, node.op_type, version)
    absent = [name for name in sorted(declared - given) if defaults.get(name) is not None]
    call.attribute.extend(helper.make_attribute(name, defaults[name]) for name in absent)
    graph = helper.make_graph(
        [call],
        "body",
        [onnx.ValueInfoProto(name=name) for name in node.input if name],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(_DOMAIN, 1)]
    )
    model.functions.append(function)
    return list(inliner.inline_local_functions(model).graph.node)
