"""Reads nodes of foreign plugins: their names in each domain, their attributes and the defaults of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, Rewriter
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.dtypes import FLOATS
from trtsmith.importers.opdef import PLUGIN_ATTRIBUTES
from trtsmith.importers.registry import PROVIDER_DOMAIN

CAFFE2 = "org.pytorch._caffe2"
"""The domain of Caffe2's operators in what Detectron2 exported (caffe2/operators and PyTorch's caffe2 exporter)."""

_ANYWHERE = (PROVIDER_DOMAIN, "TRT", "trt")


def kinds(*names: str, domains: Sequence[str] = ()) -> tuple[str, ...]:
    """Returns the plugin names in the domains in which models have them: none, modelopt's, TensorRT's, and `domains`.

    A name that ONNX has too is the plugin's only in one of these domains.
    """
    places = (*_ANYWHERE, *domains)
    found = [f"{domain}::{name}" for name in names for domain in places]
    return (*(name for name in names if not onnx.defs.has(name)), *found)


@dataclass(frozen=True)
class PluginForm:
    """A foreign plugin's signature and its replacement.

    body: gives the result, from a Writer of the node and the type of its first operand; or all that a rule may give.
    what: of the Replacement of a body that gives the result alone.
    least, most: how many operands. floats: which of them are of floating-point types. results: how many outputs.
    alike: whether all of these operands are of one type.
    """

    body: Callable[[Writer, str], Value | Replacement | Refusal | None]
    what: str = ""
    least: int = 1
    most: int = 0
    floats: tuple[int, ...] = (0,)
    results: int = 1
    alike: bool = False


def rewriter(plugins: Mapping[str, PluginForm]) -> Rewriter:
    """The rule for these op_types (or domain::op_type). It refuses nodes whose ports differ from their plugin's."""

    def rewrite(node: NodeView) -> Replacement | Refusal | None:
        plugin = plugins.get(f"{node.domain}::{node.op_type}") or plugins[node.op_type]
        if misfit := _misfit(node, plugin):
            return misfit
        w = Writer(node)
        made = plugin.body(w, str(node.dtype(0)))
        return Replacement(w.finish(made), plugin.what) if isinstance(made, Value) else made

    return rewrite


def _misfit(node: NodeView, ports: PluginForm) -> Refusal | None:
    most = max(ports.least, ports.most)
    count = f"{ports.least}" + (f" to {most}" if most > ports.least else "")
    if not ports.least <= len(node.inputs) <= most or not all(node.inputs[: ports.least]):
        given = sum(map(bool, node.inputs))
        return Refusal(
            f"it has {given} operands",
            f"{count} operands, as the plugin {node.op_type} takes them",
            "rename the node if it is of another plugin of that name, or correct its operands",
        )
    if any(node.used(index) for index in range(ports.results, len(node.outputs))):
        return Refusal(
            f"{len(node.outputs)} of its outputs are used",
            f"{ports.results}, as the plugin {node.op_type} gives",
            "rename the node if it is of another plugin of that name, or correct its outputs",
        )
    for index in ports.floats:
        dtype = node.dtype(index)
        if dtype not in FLOATS:
            return (
                node.unknown(0, "the element type")
                if dtype is None
                else _of_type(node, index, " or ".join(FLOATS))
            )
        if ports.alike and dtype != node.dtype(0):
            return _of_type(node, index, f"{node.dtype(0)}, as the first operand")
    return None


def _of_type(node: NodeView, index: int, wanted: str) -> Refusal:
    return Refusal(
        f"its operand {node.input(index)!r} is {node.dtype(index)}",
        f"an operand of type {wanted}",
        "cast the operand where the model is exported",
    )


def settings(node: NodeView, **defaults: Any) -> dict[str, Any]:
    """Returns the node's attributes, each of the type of its default. Raises RefusedError if one is missing, unknown or of
    another type.

    A type in a default's place: the node must have the attribute. A number may come as a list of one. A default that is an
    array stands for floats, in a tensor or a list.
    """
    unknown = [a.name for a in node.proto.attribute if a.name not in (*defaults, *PLUGIN_ATTRIBUTES)]
    if unknown:
        known = ", ".join(sorted(defaults)) or "none"
        raise _attribute(node, f"attribute {unknown[0]!r} is unknown", f"only these attributes: {known}")
    found: dict[str, Any] = {}
    for name, default in defaults.items():
        if not node.given(name):
            if isinstance(default, type):
                raise _attribute(node, f"attribute {name!r} is missing", f"a node with {name!r}")
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
            raise _attribute(node, f"attribute {name!r} is {value!r}", f"a value of type {wanted.__name__}")
        found[name] = value
    return found


def _attribute(node: NodeView, reason: str, expected: str) -> RefusedError:
    fix = f"correct the attributes of the {node.op_type} where the model is exported"
    return RefusedError(reason, expected, fix)


def require_opset(node: NodeView, opset: int, operator: str) -> None:
    """Raises RefusedError if the model could not be converted to an opset with the operator that the rule writes."""
    if node.opset < opset:
        raise RefusedError(
            f"the model is of opset {node.opset}, which lacks what {operator} needs, and onnx cannot convert it",
            f"opset {opset} or later",
            f"export the model with opset {opset} or later",
        )


def fixed_sizes(node: NodeView, index: int, rank: int, *axes: int) -> list[int]:
    """Returns sizes along these axes of an operand of that rank. Raises RefusedError if one is unknown or the rank
    differs.
    """
    dims = node.known_shape(index)
    if len(dims) != rank:
        raise RefusedError(
            f"its operand {node.input(index)!r} has {len(dims)} dimensions",
            f"{rank} dimensions",
            "correct the operand where the model is exported",
        )
    found = [dims[axis] for axis in axes]
    if None in found:
        raise RefusedError(node.unknown(index, "a size"))
    return [size for size in found if size is not None]


def wide(w: Writer, index: int) -> Value:
    """Casts an operand to float32."""
    return w.x[index] if w.node.dtype(index) == "float32" else w.Cast(w.x[index], to="float32")


def narrow(w: Writer, data: Value, dtype: str) -> Value:
    """Casts a float32 value to the node's output type."""
    return data if dtype == "float32" else w.Cast(data, to=dtype)
