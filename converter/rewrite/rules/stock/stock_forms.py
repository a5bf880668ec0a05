"""Reads nodes of foreign plugins: their names in each domain, their attributes, and what they leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.opdef import PLUGIN_ATTRIBUTES
from trtsmith.importers.registry import MODELOPT_DOMAIN

_ANYWHERE = (MODELOPT_DOMAIN, "TRT", "trt")


def kinds(*names: str, domains: Sequence[str] = ()) -> tuple[str, ...]:
    """These plugins in the domains that models in the wild have them in: none, modelopt's, TensorRT's, and `domains`.

    A name that ONNX has too is the plugin's only in one of these domains.
    """
    places = (*_ANYWHERE, *domains)
    found = [f"{domain}::{name}" for name in names for domain in places]
    return (*(name for name in names if not onnx.defs.has(name)), *found)


def settings(node: NodeView, **defaults: Any) -> Mapping[str, Any] | Refusal:
    """The node's attributes, each of the type of its default; a Refusal for one that is missing, unknown or of another.

    A type in a default's place: the node must have the attribute. A number may come as a list of one. A default that is an
    array stands for floats, in a tensor or a list.
    """
    unknown = [a.name for a in node.proto.attribute if a.name not in (*defaults, *PLUGIN_ATTRIBUTES)]
    if unknown:
        known = ", ".join(sorted(defaults)) or "none"
        return _attribute(node, f"attribute {unknown[0]!r} is unknown", f"only these attributes: {known}")
    found: dict[str, Any] = {}
    for name, default in defaults.items():
        if not node.given(name):
            if isinstance(default, type):
                return _attribute(node, f"attribute {name!r} is missing", f"a node with {name!r}")
            found[name] = default
            continue
        value = node.attributes[name]
        if isinstance(default, np.ndarray):
            value = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
            value = np.asarray(value, np.float32).reshape(-1)
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        wanted = default if isinstance(default, type) else type(default)
        if not isinstance(value, wanted) and not (wanted is float and isinstance(value, int)):
            return _attribute(node, f"attribute {name!r} is {value!r}", f"a value of type {wanted.__name__}")
        found[name] = value
    return found


def _attribute(node: NodeView, reason: str, expected: str) -> Refusal:
    return Refusal(
        reason, expected, f"correct the attributes of the {node.op_type} where the model is exported"
    )


def too_old(node: NodeView, opset: int, operator: str) -> Refusal:
    """The model could not be brought to an opset that has the operator which the rule writes."""
    return Refusal(
        f"the model is of opset {node.opset}, which lacks what {operator} needs, and onnx cannot convert it",
        f"opset {opset} or later",
        f"export the model with opset {opset} or later",
    )


def wide(w: Writer, data: str, dtype: str | None) -> str:
    """The value in float32."""
    return w.do("Identity", data) if dtype == "float32" else w.cast(data, "float32")


def narrow(w: Writer, data: str, dtype: str, result: str = "") -> str:
    """A float32 value in the type that the node's output has."""
    return w.do("Identity", data, result=result) if dtype == "float32" else w.cast(data, dtype, result=result)
