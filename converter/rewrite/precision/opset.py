"""Upgrades a model's opset if the requested type needs it."""

from __future__ import annotations

import onnx
from onnx import helper, version_converter

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.converter.graph.infer_changed import infer_changed
from trtsmith.converter.graph.walk import subgraphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.model.tensors import is_external
from trtsmith.importers.registry import normalise_domain

BF16_OPSET = 13
"""From here on, Cast knows bfloat16."""

QDQ_OPSET = 19
"""From here on, QuantizeLinear and DequantizeLinear know other types than float32."""

_FAILURES = (
    version_converter.ConvertError,
    onnx.shape_inference.InferenceError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
)
"""What onnx's converter raises: the first two are no RuntimeError."""

_APART = "trtsmith.apart"
"""Where custom nodes that have no domain are while onnx's converter runs, which leaves nodes of other domains alone."""


def opset_of(model: Model) -> int:
    """Returns the version of ONNX's own operators that the model imports."""
    return next((int(o.version) for o in model.proto.opset_import if not normalise_domain(o.domain)), 1)


def at_least(model: Model, opset: int) -> Model:
    """Converts the model to that opset with onnx, unless it is as new. Inferred types stay inferred.

    The converter sees no weights: they are inputs to it, and are put back. ConversionError: it cannot convert the model,
    or the model has graphs inside nodes, which the converter leaves as they are.
    """
    old = opset_of(model)
    if old >= opset:
        return model
    # No standard operator, any opset fits.
    if all(normalise_domain(entry.domain) for entry in model.proto.opset_import):
        later = model.copied()
        later.opset_import.append(helper.make_opsetid("", opset))
        return model.with_proto(later)
    nested = next((node for node in model.proto.graph.node if any(True for _ in subgraphs(node))), None)
    if nested is not None:
        raise _refused(model, old, opset, f"node {nested.name!r} ({nested.op_type}) has graphs inside")
    try:
        return infer_changed(_converted(model, opset), model)
    except _FAILURES as error:
        raise _refused(model, old, opset, " ".join(str(error).split())[:300]) from error


def _refused(model: Model, old: int, opset: int, why: str) -> ConversionError:
    return ConversionError(
        f"the model is of opset {old}, which has not all that the precision needs, and cannot be converted: {why}",
        str(model.path),
        f"opset {opset} or later",
        f"export the model with opset {opset} or later, or use --precision fp16, which needs no other",
    )


def _converted(model: Model, opset: int) -> Model:
    light = model.copied()
    graph = light.graph
    weights = [tensor for tensor in model.proto.graph.initializer if is_external(tensor)]
    constants = [node for node in model.proto.graph.node if _is_weight(node)]
    away = {tensor.name: tensor for tensor in weights} | {node.output[0]: _value(node) for node in constants}
    fed = {value.name for value in graph.input}
    for name, tensor in away.items():
        if name not in fed:
            graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    kept = [tensor for tensor in graph.initializer if tensor.name not in away]
    nodes = [node for node in graph.node if not _is_weight(node)]
    for field, items in (("initializer", kept), ("node", nodes)):
        graph.ClearField(field)
        getattr(graph, field).extend(items)
    for node in graph.node:
        if not normalise_domain(node.domain) and not onnx.defs.has(node.op_type):
            node.domain = _APART
    light.opset_import.append(helper.make_opsetid(_APART, 1))
    with foreign_code():
        done = version_converter.convert_version(light, opset)
    for node in done.graph.node:
        if node.domain == _APART:
            node.domain = ""
    known = [entry for entry in done.opset_import if entry.domain != _APART]
    done.ClearField("opset_import")
    done.opset_import.extend(known)
    inputs = [value for value in done.graph.input if value.name not in away or value.name in fed]
    done.graph.ClearField("input")
    done.graph.input.extend(inputs)
    done.graph.initializer.extend(weights)
    body = [*constants, *done.graph.node]
    done.graph.ClearField("node")
    done.graph.node.extend(body)
    done.graph.ClearField("value_info")  # inferred again
    return model.with_proto(done)


def _is_weight(node: onnx.NodeProto) -> bool:
    return (
        node.op_type == "Constant"
        and not normalise_domain(node.domain)
        and any(a.name == "value" and is_external(a.t) for a in node.attribute)
    )


def _value(constant: onnx.NodeProto) -> onnx.TensorProto:
    tensor: onnx.TensorProto = next(a.t for a in constant.attribute if a.name == "value")
    return tensor
