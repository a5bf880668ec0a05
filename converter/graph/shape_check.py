"""Checks with ONNX's own inference that a node's input shapes and attributes suit its operator."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import onnx
from onnx import TensorProto

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.scope import Scope
from trtsmith.importers.problem import Problem

_FIX = "correct the node, or the shapes of the model's inputs, where the model is exported"
_PREFIX = re.compile(r"^\(op_type:[^)]*\):\s*|\[(?:Shape|Type)InferenceError\]\s*")
_SMALL = 1024
"""Elements of constants that are shown to the inference: shapes, axes, paddings."""


def shape_problem(node: Node, schema: Any, where: str) -> Problem | None:
    """Returns the fault that ONNX's inference finds in a node's input shapes; None if it finds none.

    What the model itself says of the node's outputs does not count, and types are no business of this.
    """
    scope = node.scope
    types: dict[str, onnx.TypeProto] = {}
    constants: dict[str, TensorProto] = {}
    for name in filter(None, node.inputs):
        type_ = scope.type_proto(name)
        if type_ is None or type_.WhichOneof("value") is None:
            return None
        types[name] = type_
        tensor = _constant(scope, name)
        if (
            tensor is not None
            and prod(tensor.dims) <= _SMALL
            and tensor.data_location != TensorProto.EXTERNAL
        ):
            constants[name] = tensor
    imported = scope.whole.source.proto
    try:
        onnx.shape_inference.infer_node_outputs(
            schema, node.proto, types, constants, None, list(imported.opset_import), imported.ir_version
        )
    except onnx.shape_inference.InferenceError as error:
        said = str(error).splitlines()[0]
        if "[ShapeInferenceError]" not in said:
            return None
        shapes = ", ".join(f"{name[:100]!r}: {_shown(type_)}" for name, type_ in types.items())
        what = f"ONNX's inference refuses the node: {_PREFIX.sub('', _PREFIX.sub('', said))[:400]}"
        return Problem(what, where, f"what ONNX says of {node.op_type}; its inputs are {shapes[:400]}", _FIX)
    except (onnx.checker.ValidationError, RuntimeError, ValueError, TypeError, LookupError):
        return None
    return None


def _constant(scope: Scope, name: str) -> TensorProto | None:
    """An initializer, or what a Constant holds as a tensor: an empty one stands for an input that is left out."""
    holder = scope.holder(name)
    if holder is None:
        return None
    maker = holder.producers.get(name)
    if maker is None or maker.kind != ("", "Constant"):
        return holder.tensors.get(name)
    return next((a.t for a in maker.proto.attribute if a.name == "value"), None)


def _shown(type_: onnx.TypeProto) -> str:
    shape = type_.tensor_type.shape
    if not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return "?"
    return str([dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in shape.dim])
