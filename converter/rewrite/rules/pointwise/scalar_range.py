"""Gives Range scalars where its ends are vectors of one element.

ONNX wants scalars, and onnxruntime refuses a vector on loading, if its rank is known by then. It is not where an If makes
the value, and onnxruntime's kernel takes a vector of one element; once the If is resolved, the rank is known.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shapes = [node.shape(index) for index in range(3)]
    if not any(shapes):
        return None
    for index, shape in enumerate(shapes):
        if shape and any(size not in (1, None) for size in shape):
            return Refusal(
                f"input {node.input(index)!r} (number {index}) has the shape {list(shape)}",
                "a scalar",
                "take the element that is meant, where the model is exported",
            )
    w = Writer(node)
    ends = [w.Reshape(w.x[index], shape=[]) if shape else w.x[index] for index, shape in enumerate(shapes)]
    return Replacement(w.finish(w.Range(*ends)), "Range of scalars")


SCALAR_RANGE = NodeRule(
    "scalar-range",
    "Range whose ends are vectors of one element gets scalars",
    ("Range",),
    _rewrite,
)
