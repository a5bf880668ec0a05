"""Makes an example model from a definition: one node of the operator, with the fields, types and sizes of a case."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.plugin.cases import SEED, cast_inputs, type_choices
from trtsmith.converter.scaffold.node_example import node_example
from trtsmith.importers.fields import plugin_attributes, read_attribute
from trtsmith.importers.opdef import PLUGIN_NAMESPACE, Alias, AliasedNode, Case, OpDef

_OPSET = 17
_IR_VERSION = 10


def case_example(op: OpDef, case: Case) -> bytes:
    """Makes the model, in the first types that the operator has.

    The node is written by the first alias that takes the ports and the fields as they are; without one, as a node of the
    plugin.
    """
    types = type_choices(op)[0]
    inputs = cast_inputs(op, case.inputs(np.random.default_rng(SEED)), types)
    made = op.reference(case.fields, inputs)
    outputs = [port for port in op.outputs if not port.size]
    given = [port.name if port.name in inputs else "" for port in op.inputs]
    while given[-1] == "":
        given.pop()
    domain, op_type, attributes = _written(op, case, inputs)
    node = helper.make_node(
        op_type, given, [port.name for port in outputs], name=op.snake_name, domain=domain, **attributes
    )
    opset = helper.make_opsetid("", max(_OPSET, op.expansion_opset))
    return node_example(
        onnx.ModelProto(ir_version=_IR_VERSION, opset_import=[opset]),
        node,
        [*inputs],
        [port.name for port in outputs],
        [array.shape for array in inputs.values()],
        {port.name: types[port.type] for port in (*op.inputs, *outputs)},
        [None if op.data_dependent else made[port.name].shape for port in outputs],
        {name: array for name, array in inputs.items() if name in op.constants},
    )


def _written(op: OpDef, case: Case, inputs: dict[str, np.ndarray]) -> tuple[str, str, dict[str, Any]]:
    """The node's domain, op_type and attributes."""
    ports = [port.name for port in op.inputs]
    for alias in op.aliases:
        attributes = {a.name: case.fields[a.name] for a in alias.attributes if a.name in case.fields}
        same_ports = [name.rstrip("?") for name in alias.inputs] == ports and not alias.outputs
        computes = alias.prologue or alias.epilogue or alias.constants
        if same_ports and not computes and _means(alias, attributes, case, inputs):
            return next(iter(alias.domains), ""), alias.op_type, _plain(attributes)
    return PLUGIN_NAMESPACE, op.name, plugin_attributes(op, case.fields)


def _means(alias: Alias, attributes: dict[str, Any], case: Case, inputs: dict[str, np.ndarray]) -> bool:
    """Whether the alias takes these attributes for the fields of the case."""
    read = {a.name: read_attribute(a, attributes.get(a.name, a.default)) for a in alias.attributes}
    if any(refusal is not None for _, refusal in read.values()):
        return False
    dtypes = {name: str(array.dtype) for name, array in inputs.items()}
    shapes = {name: array.shape for name, array in inputs.items()}
    node = AliasedNode({name: value for name, (value, _) in read.items()}, frozenset(inputs), dtypes, shapes)
    if alias.when is not None and not alias.when(node):
        return False
    return (alias.guard is None or alias.guard(node) is None) and alias.fields(node) == case.fields


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}
