"""How large the integers may be that a model takes for indices: made-up inputs must not point behind a table's end."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from converter.infer import value_types
from importers.registry import normalise_domain

_TABLES: Mapping[tuple[str, str], tuple[tuple[int, int], ...]] = {
    ("", "Gather"): ((1, 0),),
    ("com.microsoft", "EmbedLayerNormalization"): ((0, 2), (1, 4), (8, 3)),
}
"""By operator, pairs (input with the indices, input with the table)."""


def index_bounds(proto: onnx.ModelProto) -> dict[str, int]:
    """By graph input, the number of rows of the smallest table that it is an index of; through Cast and Identity too.

    Only tables whose number of rows is known count. An embedding of two kinds of segments allows 0 and 1.
    """
    types = value_types(proto)
    source = {value.name: value.name for value in proto.graph.input}
    bounds: dict[str, int] = {}
    for node in proto.graph.node:
        domain = normalise_domain(node.domain)
        if node.op_type in ("Cast", "Identity") and not domain and node.input[0] in source:
            source[node.output[0]] = source[node.input[0]]
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        for index, table in _TABLES.get((domain, node.op_type), ()):
            if max(index, table) >= len(node.input) or node.input[index] not in source:
                continue
            type_ = types.get(node.input[table])
            dims = type_.shape.dim if type_ is not None and type_.HasField("shape") else ()
            if -len(dims) <= axis < len(dims) and dims[axis].dim_value > 0:
                name = source[node.input[index]]
                bounds[name] = min(bounds.get(name, dims[axis].dim_value), dims[axis].dim_value)
    return bounds
