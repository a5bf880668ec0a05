"""Reads and writes constants as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.model.model import Model
from trtsmith.importers.registry import normalise_domain

_VALUES: Mapping[str, Any] = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def is_constant_node(node: onnx.NodeProto) -> bool:
    """Tells whether the node is a Constant of numbers."""
    return (
        node.op_type == "Constant" and not normalise_domain(node.domain) and node.attribute[0].name in _VALUES
    )


def constant_value(node: onnx.NodeProto, model: Model) -> np.ndarray | None:
    """Returns the value of a Constant node; None for other nodes, strings and sparse tensors."""
    if not is_constant_node(node):
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        return model.array(attribute.t)
    return np.array(helper.get_attribute_value(attribute), _VALUES[attribute.name])


def branch_of(condition: np.ndarray) -> str:
    """Names the branch that an If runs for this condition."""
    return "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"


def evaluated(node: onnx.NodeProto, opset: int, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Computes the node's outputs with ONNX's reference implementation, for any element type."""
    from onnx.reference import ReferenceEvaluator  # few models need it

    return list(ReferenceEvaluator(node, opsets={"": opset}).run(None, dict(feeds)))
