"""Splits a TopK of more elements than TensorRT's layer gives (3,840) into rounds: the best so many, then the next best.

The rest is gathered in its order, so that the lower index still wins between equals, by scattering what was not chosen
to its position among those; what was chosen goes to one place behind them, which is cut off.
"""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer

LARGEST = 3840
"""TensorRT-RTX 1.7.1: "K exceeds the maximum value allowed (3840)"."""

ROUNDS = 32
"""Of 14 nodes each; 122,880 elements."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    k = node.constant(1) if node.opset >= 10 else np.array(node.attributes.get("k", 0))
    rank = node.rank(0)
    if k is None or int(k.reshape(-1)[0]) <= LARGEST or not rank:
        return None
    count = int(k.reshape(-1)[0])
    if count > LARGEST * ROUNDS or node.opset < 11:
        return Refusal(
            f"{count:,} of the elements of {node.input(0)!r} are wanted, in opset {node.opset}",
            f"at most {LARGEST * ROUNDS:,}, from opset 11 on",
            "sort outside of the engine, or convert the model to a newer opset",
        )
    axis = int(node.attributes.get("axis", -1)) % rank
    parts = [LARGEST] * (count // LARGEST) + [count % LARGEST] * bool(count % LARGEST)
    w = Writer(node)
    shape = w.do("Shape", "x0")
    length = w.do("Gather", shape, np.array(axis), axis=0)
    along = w.reshape(
        w.do("Range", np.array(0), length, np.array(1)), [-1 if i == axis else 1 for i in range(rank)]
    )
    data, numbers = w.do("Identity", "x0"), w.do("Expand", along, shape)
    values, indices = [], []
    for number, part in enumerate(parts):
        best, where = w.name(), w.name()
        w.many("TopK", [data, w.ints(part)], [best, where], axis=axis, **node.own("largest", "sorted"))
        values.append(best)
        indices.append(w.do("GatherElements", numbers, where, axis=axis))
        if number < len(parts) - 1:
            data, numbers = _rest(w, data, numbers, where, part, axis)
    if node.used(0):
        w.concat(values, axis, "y0")
    if node.used(1):
        w.concat(indices, axis, "y1")
    return Replacement(w.nodes(), f"{len(parts)} rounds of TopK")


def _rest(w: Writer, data: str, numbers: str, where: str, part: int, axis: int) -> tuple[str, str]:
    """What was not chosen, and its numbers along the axis."""
    one, at = w.const(np.array(1)), w.const(np.array(axis))
    ones = w.do("ConstantOfShape", w.do("Shape", where), value=numpy_helper.from_array(np.ones(1, np.int64)))
    shape = w.do("Shape", data)
    zeros = w.do("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1, np.int64)))
    chosen = w.do("ScatterElements", zeros, where, ones, axis=axis)
    position = w.do("CumSum", w.do("Sub", one, chosen), at, exclusive=1)
    behind = w.do("Sub", w.do("Gather", shape, at, axis=0), w.ints(part))
    target = w.do("Where", w.do("Equal", chosen, one), behind, position)
    data, numbers = (
        w.slice_(w.do("ScatterElements", x, target, x, axis=axis), [0], [-LARGEST], [axis])
        for x in (data, numbers)
    )
    return data, numbers


LARGE_TOP_K = NodeRule(
    "large-top-k",
    "TopK of more elements than TensorRT's layer gives",
    ("TopK",),
    _rewrite,
)
