"""Casts GridSample's input and grid to the wider of their types: TensorRT wants one."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer

_FLOATS = ("float16", "bfloat16", "float32")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    data, grid = node.dtype(0), node.dtype(1)
    if data == grid or data not in _FLOATS or grid not in _FLOATS:
        return None
    w = Writer(node)
    x = "x0" if data == "float32" else w.cast("x0", "float32")
    places = "x1" if grid == "float32" else w.cast("x1", "float32")
    given = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    if data == "float32":
        w.do("GridSample", x, places, result="y0", **given)
    else:
        w.cast(w.do("GridSample", x, places, **given), data, result="y0")
    return Replacement(w.nodes(), "GridSample in float32, as input and grid differ in type")


GRID_SAMPLE_TYPES = NodeRule(
    "grid-sample-types",
    "GridSample gets an input and a grid of one type",
    ("GridSample",),
    _rewrite,
)
