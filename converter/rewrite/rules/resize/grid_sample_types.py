"""Casts GridSample's input and grid to the wider of their types: TensorRT wants one."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer

_FLOATS = ("float16", "bfloat16", "float32")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    data, grid = node.dtype(0), node.dtype(1)
    if data == grid or data not in _FLOATS or grid not in _FLOATS:
        return None
    w = Writer(node)
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    x, places = (
        value if dtype == "float32" else w.Cast(value, to="float32")
        for value, dtype in zip(w.x, (data, grid), strict=True)
    )
    sampled = w.GridSample(x, places, **given)
    return Replacement(
        w.finish(sampled if data == "float32" else w.Cast(sampled, to=data)),
        "GridSample in float32, as input and grid differ in type",
    )


GRID_SAMPLE_TYPES = NodeRule(
    "grid-sample-types",
    "GridSample gets an input and a grid of one type",
    ("GridSample",),
    _rewrite,
)
