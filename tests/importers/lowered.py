"""Lowers and runs the examples of foreign nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.importers.foreign import EXAMPLES, Example
from tests.importers.running import TYPES, error, run_model, tensor_type, types_of
from trtsmith.converter.graph.onnx_inference import infer_shapes
from trtsmith.importers.lowering import ForeignNode, Lowered, lower
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Alias, Refusal
from trtsmith.importers.registry import by_name, own_alias

RESULTS = ["result", *(f"result/{number}" for number in range(1, 9))]
"""Names for a node's outputs."""


def alias_of(example: Example) -> Alias:
    op = by_name()[example.op]
    named = [alias for alias in (*op.aliases, own_alias(op)) if alias.op_type == example.op_type]
    given = len(example.inputs())
    return max(named, key=lambda alias: (example.domain in alias.domains, len(alias.inputs) >= given))


def results(example: Example) -> list[str]:
    alias = alias_of(example)
    count = len(alias.outputs or by_name()[example.op].outputs)
    return RESULTS[:count]


def find(op: str, op_type: str) -> Example:
    return next(e for e in EXAMPLES if e.op == op and e.op_type == op_type)


def foreign(
    example: Example,
    arrays: Mapping[str, np.ndarray | None] | None = None,
    *,
    domain: str | None = None,
    known: bool = True,
    **changed: Any,
) -> ForeignNode:
    """The example as a node that went through an ONNX file; an attribute changed to None is left out."""
    arrays = example.inputs() if arrays is None else arrays
    attributes = {n: v for n, v in {**example.attributes, **changed}.items() if v is not None}
    names = [n if a is not None else "" for n, a in arrays.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node(
        example.op_type,
        names,
        results(example),
        name="node",
        domain=example.domain if domain is None else domain,
    )
    node.attribute.extend(
        helper.make_attribute(n, v) for n, v in attributes.items()
    )  # one may be called `name`
    tensors = {n: a for n, a in arrays.items() if a is not None}
    return ForeignNode(
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        attributes={a.name: helper.get_attribute_value(a) for a in node.attribute},
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        constant=lambda name: tensors[name] if name in example.constants else None,
        dtypes={n: str(a.dtype) for n, a in tensors.items()} if known else {},
        shapes={n: a.shape for n, a in tensors.items()} if known else {},
    )


def lowered(example: Example, *args: Any, **options: Any) -> Lowered:
    result = lower(foreign(example, *args, **options), example.version)
    assert isinstance(result, Lowered), result
    return result


def refused(example: Example, *args: Any, version: int | None = None, **options: Any) -> Refusal:
    result = lower(foreign(example, *args, **options), example.version if version is None else version)
    assert isinstance(result, Refusal), result
    for part in (result.reason, result.expected, result.fix):
        assert part
    return result


def lowered_model(
    result: Lowered, arrays: Mapping[str, np.ndarray], opset: int, dtype: str
) -> onnx.ModelProto:
    """A model of the nodes that took the foreign node's place, with those of its inputs that they read.

    An output that is no port's has the type that follows from the nodes.
    """
    used = {value for node in result.nodes for value in node.input}
    feeds = {n: a for n, a in arrays.items() if n in used}
    types = types_of(result.op) | {"T": dtype, "E": dtype}
    plugin = next(node for node in result.nodes if node.name == result.plugin_node)
    ports = dict(zip(plugin.output, (port.type for port in result.op.outputs), strict=True))
    made = {value for node in result.nodes for value in node.output}
    graph = helper.make_graph(
        list(result.nodes),
        "graph",
        [helper.make_tensor_value_info(n, tensor_type(a.dtype), a.shape) for n, a in feeds.items()],
        [
            helper.make_tensor_value_info(name, tensor_type(TYPES[types[ports[name]]]), None)
            if name in ports
            else helper.make_empty_tensor_value_info(name)
            for name in RESULTS
            if name in made
        ],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(PLUGIN_NAMESPACE, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    if all(name in ports for name in RESULTS if name in made):
        return model
    inferred = infer_shapes(model)
    for value, known in zip(model.graph.output, inferred.graph.output, strict=True):
        value.type.tensor_type.elem_type = known.type.tensor_type.elem_type
    return model


def run_lowered(
    result: Lowered, arrays: Mapping[str, np.ndarray], opset: int, dtype: str = "float32"
) -> list[np.ndarray]:
    model = lowered_model(result, arrays, opset, dtype)
    return run_model(model, {value.name: arrays[value.name] for value in model.graph.input})


def worst(found: list[np.ndarray], wanted: tuple[np.ndarray, ...]) -> float:
    """The largest error of an output."""
    return max(error(output, right) for output, right in zip(found, wanted, strict=True))


def tensors_of(example: Example) -> dict[str, np.ndarray]:
    return {n: a for n, a in example.inputs().items() if a is not None}


def floating_of(example: Example) -> list[str]:
    """The float32 inputs that may have another floating dtype: not those that feed ports of float32 alone."""
    slots = [name.rstrip("?") for name in alias_of(example).inputs]
    fixed = {port.name for port in by_name()[example.op].inputs if port.type == "F"}
    places = dict(zip(example.inputs(), slots, strict=False))
    return [n for n, a in tensors_of(example).items() if a.dtype == np.float32 and places.get(n) not in fixed]


def tensors_in(example: Example, dtype: str) -> dict[str, np.ndarray]:
    """The example's inputs with the floating ones in that dtype; float64, which is cast to float32, may be any of them."""
    tensors = tensors_of(example)
    floating = floating_of(example)
    if dtype == "float64":
        floating = [n for n, a in tensors.items() if a.dtype == np.float32]
    return {n: a.astype(TYPES[dtype]) if n in floating else a for n, a in tensors.items()}
