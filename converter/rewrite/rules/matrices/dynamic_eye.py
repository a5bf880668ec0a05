"""Rewrites EyeLike of a matrix of dynamic size as a comparison of row and column numbers."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.importers.dtypes import NUMBERS


@node_rule("dynamic-eye", "EyeLike")
def dynamic_eye_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites EyeLike of a matrix of dynamic size as a comparison of indices."""
    shape = node.shape(0)
    if shape is not None and None not in shape:
        return None
    wanted = node.attributes.get("dtype") or NUMBERS[node.known_dtype(0)]
    w = Writer(node)
    sizes = w.Shape(w.x[0])
    height, width = (w.Gather(sizes, axis, axis=0) for axis in (0, 1))
    rows, columns = (w.Range(0, size, 1) for size in (height, width))
    diagonal = w.Add(w.Unsqueeze(rows, axes=[1]), int(node.attributes.get("k", 0)))
    return Replacement(
        w.finish(w.Cast(w.Equal(diagonal, columns), to=wanted)), "a comparison of row and column numbers"
    )
