"""TensorScatter by ScatterElements.

TensorRT has a layer for 4-D, linear, along the last but one, which updates the cache in place: TensorRT-RTX 1.6.1 runs it
only if the cache comes in and goes out at one address ("should alias but memory addresses differ", seen on an H200), as
no caller expects of an ONNX model, whose inputs stay as they are. So none is left to the layer.

Position s of the update goes to write_indices[batch] + s along the axis, modulo its length if circular.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements

_IN_PLACE = "TensorRT's layer runs only with the updated cache at the address of the cache that comes in; this one copies it"


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    rank = node.rank(0)
    if rank is None:
        return None
    axis = int(node.attributes.get("axis", -2)) % rank
    circular = node.attributes.get("mode", "linear") == "circular"
    in_place = rank == 4 and axis == 2 and not circular and bool(node.input(2))
    trailing = list(range(1, rank - axis))
    body = f"""
        shape = Shape (x1)
        length = Gather <axis = 0> (shape, axis)
        steps = Range (zero, length, one)
        {unsqueeze("offsets", "steps", trailing, node.opset)}
        {_starts(node, rank)}
        linear = Add (starts, offsets)
        {"cache = Shape (x0)" if circular else ""}
        {"size = Gather <axis = 0> (cache, axis)" if circular else ""}
        {"position = Mod (linear, size)" if circular else "position = Identity (linear)"}
        indices = Expand (position, shape)
        y0 = ScatterElements <axis = {axis}> (x0, indices, x1)
    """
    constants = {name: np.array(value, np.int64) for name, value in (("zero", 0), ("one", 1), ("axis", axis))}
    return Replacement(
        statements(node, body, **constants), "ScatterElements", (_IN_PLACE,) if in_place else ()
    )


def _starts(node: NodeView, rank: int) -> str:
    if not node.input(2):
        return "starts = Identity (zero)"
    return unsqueeze("starts", "x2", list(range(1, rank)), node.opset)


TENSOR_SCATTER = NodeRule(
    "tensor-scatter",
    "TensorScatter, which TensorRT updates in place or refuses",
    ("TensorScatter",),
    _rewrite,
)
