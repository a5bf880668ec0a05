"""Inlines the model's own functions where TensorRT would not accept their nodes.

TensorRT's parser inlines functions itself, so that one with operators that it imports stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import onnx
from onnx import inliner

from trtsmith.converter.base.errors import ConversionError
from trtsmith.converter.base.process.foreign_code import foreign_code
from trtsmith.converter.graph.walk import all_graphs
from trtsmith.converter.model.model import Model
from trtsmith.converter.rewrite.native_operators import native_operators
from trtsmith.importers.registry import OperatorId, find_aliases, normalise_domain


def all_functions(model: Model) -> Iterator[OperatorId]:
    """Returns the kinds of all functions in the model."""
    return ((normalise_domain(f.domain), f.name) for f in model.proto.functions)


def functions_holding(model: Model, wanted: Callable[[str, str], bool]) -> frozenset[OperatorId]:
    """Finds called functions that contain such a node, directly or through functions that they call.

    One that is an alias of ours stands for its operator, and is left out.
    """
    bodies = {(normalise_domain(f.domain), f.name): list(_nodes(f.node)) for f in model.proto.functions}
    ours = {kind for kind in bodies if find_aliases(*kind)}
    calls = {kind: [_kind(node) for node in nodes] for kind, nodes in bodies.items()}
    holding = {
        kind
        for kind, made_of in calls.items()
        if kind not in ours and any(wanted(*inner) for inner in made_of if inner not in bodies)
    }
    while True:
        more = {
            kind
            for kind, made_of in calls.items()
            if kind not in holding and kind not in ours and holding.intersection(made_of)
        }
        if not more:
            return frozenset(holding)
        holding |= more


def not_native(domain: str, op_type: str) -> bool:
    """Tells whether TensorRT's parser lacks the operator; it looks at the op_type only."""
    return op_type not in native_operators()


def inlined(model: Model) -> Model:
    """The model without functions, but those that `inline` leaves."""
    return inline(model, frozenset(all_functions(model)))


def inline(model: Model, functions: frozenset[OperatorId]) -> Model:
    """Returns the model with these functions inlined; itself if there are none.

    A function that was written for another opset than the model's stays: onnx does not inline it.
    """
    if not functions:
        return model
    ids = [
        (f.domain, f.name) for f in model.proto.functions if (normalise_domain(f.domain), f.name) in functions
    ]
    imported = {normalise_domain(entry.domain) for entry in model.proto.opset_import}
    try:
        with foreign_code():
            proto = inliner.inline_selected_functions(model.proto, ids)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        # several versions of ONNX's operators that nobody converts, or more than 10,000 functions
        raise ConversionError(
            f"The model's functions cannot be inlined: {error}",
            str(model.path),
            "functions of the opset that the model imports",
            "export the model without functions, or inline them with onnx.inliner before the model is saved",
        ) from error
    for function in model.proto.functions:  # a domain may be imported by the function alone
        for entry in function.opset_import:
            if normalise_domain(entry.domain) not in imported:
                imported.add(normalise_domain(entry.domain))
                if all(
                    normalise_domain(o.domain) != normalise_domain(entry.domain) for o in proto.opset_import
                ):
                    proto.opset_import.append(entry)
    return model.with_proto(proto)


def _nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    graph = onnx.GraphProto(node=nodes)
    for part in all_graphs(graph):
        yield from part.node


def _kind(node: onnx.NodeProto) -> OperatorId:
    return normalise_domain(node.domain), node.op_type
