"""Infers types and shapes of a model, through nodes of our operators and of onnxruntime's.

onnx infers in C++, and reads schemas from one registry for the whole process: what is registered there under the name of an
operator is seen by every other thread, and meets what the program that uses this library has registered. So nodes that
onnx does not know are nodes of one operator of our own in a copy of the model, and an attribute says what they were. The
schema of that operator is all that is registered, once, when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import onnx
import onnx.defs
from onnx import helper

from trtsmith.converter.graph.walk import may_have_graphs, subgraphs
from trtsmith.importers.contrib_types import contrib_inference
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import by_name, normalise_domain
from trtsmith.importers.schema import operator_inference

_Part = onnx.ModelProto | onnx.FunctionProto

_DOMAIN = f"{PLUGIN_NAMESPACE}.inference"
_ANY = "Any"
_MEANT = _DOMAIN
"""The attribute of a node `Any` that has domain, op_type and opset of the node in whose place it is."""


def infer_shapes(
    model: onnx.ModelProto, *, check_type: bool = False, strict_mode: bool = False, data_prop: bool = False
) -> onnx.ModelProto:
    """Copies the model with inferred types; arguments and errors are those of onnx.shape_inference.infer_shapes.

    Operators of ours, and from outside those that are in force. onnx's registry stays as it is.
    """
    hidden = _hidden(model)
    inferred = onnx.shape_inference.infer_shapes(
        model if hidden is None else hidden, check_type, strict_mode, data_prop
    )
    if hidden is not None:
        _show(inferred)
    return inferred


def _hidden(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with nodes `Any` in the place of those that onnx does not know; None if there are none."""
    local = {(function.domain, function.name) for function in model.functions}

    def unknown(part: _Part) -> set[tuple[str, str]]:
        kinds = {(node.domain, node.op_type) for node in _nodes(part)} - local
        return {kind for kind in kinds if _inference(*kind, _opset(part)) is not None}

    if not any(unknown(part) for part in (model, *model.functions)):
        return None
    hidden = onnx.ModelProto()
    hidden.CopyFrom(model)
    for part in (hidden, *hidden.functions):
        kinds, opset = unknown(part), str(_opset(part))
        for node in _nodes(part):
            if (node.domain, node.op_type) in kinds:
                node.attribute.append(helper.make_attribute(_MEANT, [node.domain, node.op_type, opset]))
                node.domain, node.op_type = _DOMAIN, _ANY
        part.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return hidden


def _show(hidden: onnx.ModelProto) -> None:
    """Restore the nodes."""
    for part in (hidden, *hidden.functions):
        for node in _nodes(part):
            if node.domain == _DOMAIN:
                domain, op_type, _ = node.attribute.pop().strings
                node.domain, node.op_type = domain.decode(), op_type.decode()
        part.opset_import.pop()


def _opset(part: _Part) -> int:
    """The version of ONNX's own operators in the model or function."""
    return next((int(o.version) for o in part.opset_import if not normalise_domain(o.domain)), 1)


def _nodes(part: _Part) -> Iterator[onnx.NodeProto]:
    """Every node of the model's graph, or of the function, inside of nodes too."""
    return _inner(part.node if isinstance(part, onnx.FunctionProto) else part.graph.node)


def _inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        if may_have_graphs(node.op_type, node.domain):
            for graph in subgraphs(node):
                yield from _inner(graph.node)


def _inference(domain: str, op_type: str, opset: int) -> Callable[[Any], None] | None:
    """The inference function of an operator; None for one that is left to onnx."""
    if domain == PLUGIN_NAMESPACE:
        op = by_name().get(op_type)
        return None if op is None else operator_inference(op)
    return contrib_inference(domain, op_type, opset)


def _infer(context: Any) -> None:
    """Called by onnx for a node `Any`, in the thread that asked it to infer: there the same operators are in force."""
    domain, op_type, opset = context.get_attribute(_MEANT).strings
    inference = _inference(domain.decode(), op_type.decode(), int(opset))
    assert inference is not None
    inference(context)


def _register() -> None:
    formal, variadic = onnx.defs.OpSchema.FormalParameter, onnx.defs.OpSchema.FormalParameterOption.Variadic
    ports = [
        formal(name, name.upper(), param_option=variadic, is_homogeneous=False, min_arity=0) for name in "xy"
    ]
    types = onnx.defs.get_schema("Identity").type_constraints[0].allowed_type_strs
    schema = onnx.defs.OpSchema(
        _ANY,
        _DOMAIN,
        1,
        inputs=ports[:1],
        outputs=ports[1:],
        type_constraints=[(port.type_str, types, "") for port in ports],
    )
    schema.set_type_and_shape_inference_function(_infer)
    if onnx.defs.has(_ANY, domain=_DOMAIN):  # of this module, before it was loaded again
        onnx.defs.deregister_schema(_ANY, 1, _DOMAIN)
    onnx.defs.register_schema(schema)


_register()
