"""The function body by which ONNX itself defines an operator, made into nodes for one node of a model."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper, inliner

from converter.passes.node_rule import NodeView
from converter.passes.values import rename_values

_DOMAIN = "trtsmith.body"


def body_nodes(node: NodeView) -> list[onnx.NodeProto] | None:
    """The nodes of the body, in the model's opset, with this node's values and attributes; None if there is no body.

    ONNX makes some bodies for a node's attributes and the types of its inputs; there is none where it lacks a type.
    """
    function = _function(node)
    if function is None:
        return None
    return _inlined(node, function)


def _function(node: NodeView) -> onnx.FunctionProto | None:
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, node.version, node.domain)
    except onnx.defs.SchemaError:
        return None
    text = b""
    if schema.has_function:
        text = schema.get_function_with_opset_version(_latest(schema.function_opset_versions, node.opset))
    elif schema.has_context_dependent_function:
        types = [node.type_proto(i) or onnx.TypeProto() for i in range(len(node.inputs))]
        text = schema.get_context_dependent_function_with_opset_version(
            _latest(schema.context_dependent_function_opset_versions, node.opset),
            node.proto.SerializeToString(),
            [type_.SerializeToString() for type_ in types],
        )
    return onnx.FunctionProto.FromString(text) if text else None


def _latest(versions: list[int], opset: int) -> int:
    """The newest body that was written for this opset or an older one."""
    return max((version for version in versions if version <= opset), default=opset)


def _inlined(node: NodeView, function: onnx.FunctionProto) -> list[onnx.NodeProto]:
    """The body's nodes with the values of the node in the place of its parameters, by onnx's own inliner."""
    function.domain, function.name = _DOMAIN, "body"
    opset = max([node.opset, *(o.version for o in function.opset_import if not o.domain)])
    del function.opset_import[:]
    function.opset_import.append(helper.make_opsetid("", opset))
    call = onnx.NodeProto()
    call.CopyFrom(node.proto)
    call.domain, call.op_type, call.name = _DOMAIN, "body", ""
    declared = set(function.attribute) | {a.name for a in function.attribute_proto}
    absent = [name for name in declared if not node.given(name) and node.attributes.get(name) is not None]
    call.attribute.extend(helper.make_attribute(name, node.attributes[name]) for name in absent)
    graph = helper.make_graph(
        [call],
        "body",
        [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.inputs) if name],
        [onnx.ValueInfoProto(name=name) for name in node.outputs if name],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(_DOMAIN, 1)]
    )
    model.functions.append(function)
    nodes = list(inliner.inline_local_functions(model).graph.node)
    own = {name for name in (*node.inputs, *node.outputs) if name}
    renamed = {name: node.fresh(name) for made in nodes for name in made.output if name and name not in own}
    for made in nodes:
        rename_values(made, renamed, node.fresh)
    return nodes
