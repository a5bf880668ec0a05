"""Rewrites TensorScatter as ScatterElements.

TensorRT has a layer for 4-D, linear, along the last but one, which updates the cache in place: TensorRT-RTX 1.6.1 runs it
only if the cache comes in and goes out at one address ("should alias but memory addresses differ", seen on an H200), as
no caller expects of an ONNX model, whose inputs stay as they are. So none is left to the layer.

Position s of the update goes to write_indices[batch] + s along the axis, modulo its length if circular.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer

_IN_PLACE = "TensorRT's layer runs only with the updated cache at the address of the cache that comes in; this one copies it"


@node_rule("tensor-scatter", "TensorScatter")
def tensor_scatter_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites TensorScatter, which TensorRT updates in place or refuses, as ScatterElements."""
    rank = node.rank(0)
    if rank is None:
        return None
    axis = int(node.attributes.get("axis", -2)) % rank
    circular = node.attributes.get("mode", "linear") == "circular"
    in_place = rank == 4 and axis == 2 and not circular and bool(node.input(2))
    w = Writer(node)
    shape = w.Shape(w.x[1])
    offsets = w.unsqueeze(w.Range(0, w.Gather(shape, axis, axis=0), 1), list(range(1, rank - axis)))
    starts = w.unsqueeze(w.x[2], list(range(1, rank))) if node.input(2) else w.constant(0)
    place = w.Add(starts, offsets)
    if circular:
        place = w.Mod(place, w.Gather(w.Shape(w.x[0]), axis, axis=0))
    return Replacement(
        w.finish(w.ScatterElements(w.x[0], w.Expand(place, shape), w.x[1], axis=axis)),
        "ScatterElements",
        (_IN_PLACE,) if in_place else (),
    )
