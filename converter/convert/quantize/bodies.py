"""Replaces plugin nodes by function calls for calibration, which runs the model in onnxruntime, and back."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from trtsmith.converter.graph.infer import value_dtypes
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.rewrite import cannot_expand
from trtsmith.importers.expansion import EXPANDED_DOMAIN, ExpansionError, plugin_nodes, with_functions


def with_bodies(model: Model) -> tuple[Model, dict[str, onnx.NodeProto]]:
    """The model with a local function for each plugin node, and the nodes themselves by name. Names of nodes are unique.

    ConversionError: the body of one cannot be written.
    """
    nodes = {node.name: node for node in plugin_nodes(model.proto.graph)}
    if not nodes:
        return model, {}
    try:
        called, _ = with_functions(model.proto, value_dtypes(model.proto))
    except ExpansionError as error:
        raise cannot_expand(model, error) from error
    return model.with_proto(called), nodes


def without_bodies(model: Model, nodes: Mapping[str, onnx.NodeProto]) -> Model:
    """The calibrated model with plugin nodes where the calls were; their inputs may be others now.

    nvidia-modelopt moves what it does not know into the domain trt.plugins: nodes are found by name.
    """
    if not nodes:
        return model
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for node in proto.graph.node:
        plugin = nodes.get(node.name)
        if plugin is None:
            continue
        inputs = iter(list(node.input))
        connected = [next(inputs) if name else "" for name in plugin.input]
        outputs = list(node.output)
        node.CopyFrom(plugin)
        node.input[:] = connected
        node.output[:] = outputs
    kept = [o for o in proto.opset_import if o.domain not in (EXPANDED_DOMAIN, "trt.plugins")]
    domain = next(iter(nodes.values())).domain
    if all(o.domain != domain for o in kept):
        kept.append(onnx.helper.make_opsetid(domain, 1))
    del proto.opset_import[:], proto.functions[:]
    proto.opset_import.extend(kept)
    return model.with_proto(proto)
