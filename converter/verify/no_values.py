"""Finds why an output is NaN everywhere or empty: NaN in an input or a weight, a size of 0, or a selection of nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import infer_shapes, value_shapes
from trtsmith.converter.model.model import Model
from trtsmith.converter.verify.findings import ALWAYS_EMPTY, NAN_GIVEN, Finding, finding
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import Arrays


def arrays_with_nan(model: Model, feeds: Arrays) -> Iterator[Finding]:
    """Finds the first input and the first initializer that have NaN."""
    weights = ((tensor.name, model.array(tensor)) for tensor in model.proto.graph.initializer)
    for what, arrays, fix in (
        ("input", feeds.items(), "give inputs without NaN: --inputs FILE.npz"),
        ("initializer", weights, "export the model again, from weights without NaN: no inputs help"),
    ):
        if told := first_nan(what, arrays):
            yield finding(NAN_GIVEN, told=told, fix=fix)


def first_nan(what: str, arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """Returns of the first array with NaN how many it has, as "input 'x' has 1 NaN value"; "" without one."""
    for name, values in arrays:
        # only NaN is unlike itself, in every type that numpy and ml_dtypes have
        if count := int(np.count_nonzero(values != values)):
            return f"{what} {name!r} has {counted(count, 'NaN value')}"
    return ""


def always_empty(model: Model, outputs: Collection[str]) -> Iterator[Finding]:
    """Finds outputs with a size that is 0 for all inputs, and NonMaxSuppression nodes that select no box."""
    fix = "export the model again, {} above 0: no inputs help"
    shapes = value_shapes(infer_shapes(model).proto)
    for name in outputs:
        if 0 in (shape := shapes.get(name, ())):
            told = f"output {name!r} is always empty: its size at axis {shape.index(0)} is 0 in the model"
            yield finding(ALWAYS_EMPTY, told=told, fix=fix.format("with that size"))
    graph = Graph(model).root
    for node in graph.nodes:
        if node.kind == ("", "NonMaxSuppression"):
            name = next(iter(node.inputs[2:3]), "")
            most = graph.constant(name) if name else np.zeros(1)  # left out, it is 0
            if most is not None and not most.any():
                told = f"NonMaxSuppression {node.label!r} selects no box: its max_output_boxes_per_class is 0"
                yield finding(ALWAYS_EMPTY, told=told, fix=fix.format("with max_output_boxes_per_class"))
