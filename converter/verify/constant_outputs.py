"""Finds outputs that are the same for all inputs of a shape: one value everywhere is no sign of a fault there."""

from __future__ import annotations

from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.local_functions import all_functions, inline
from trtsmith.importers.registry import normalise_domain

_SHAPES = frozenset({"Shape", "Size"})
"""Operators that read no value of their input."""


def constant_outputs(model: Model) -> frozenset[str]:
    """Names of the outputs that depend on no value of an input. Random numbers count as values."""
    graph = inline(model, frozenset(all_functions(model))).proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    varying = {value.name for value in graph.input} - constants
    for node in graph.node:
        if not normalise_domain(node.domain) and node.op_type in _SHAPES:
            continue
        if node.op_type.startswith("Random") or not varying.isdisjoint(values_read(node)):
            varying.update(node.output)
    return frozenset(value.name for value in graph.output if value.name not in varying)
