"""Rewrites Unique over all elements whose number of results is known: declared by the model, or one element.

An element is the first of its kind if no earlier one is equal; all pairs are compared. Other nodes, and those along an
axis, are left to the plugin (unique_plugin.py), where it takes the type.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.selection.positions import positions

LARGEST = 1 << 14
"""Elements; their pairs are 2^28."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape = node.shape(0)
    size = int(np.prod(np.array(shape, dtype=object))) if shape is not None and None not in shape else None
    declared = [node.output_shape(i) for i in (0, 1, 3)]
    counts = [size] if size == 1 else [s[0] for s in declared if s and s[0] is not None]
    flat = not node.given("axis") or (shape is not None and len(shape) == 1)
    if not flat or not counts or size is None or size > LARGEST or node.opset < 11:
        return Refusal(
            f"how many different {'elements' if flat else 'slices'} {node.input(0)!r} of shape "
            f"{list(shape) if shape is not None else 'unknown'} has is known at run time only",
            f"elements of a tensor of known shape, at most {LARGEST:,}, and an output whose size is declared",
            "take Unique out of the model and call numpy.unique on the engine's output, or give its outputs sizes",
        )
    count = counts[0]
    w, number = Writer(node), np.arange(size)
    data = w.reshape("x0", [-1])
    column = w.unsqueeze(data, [1])
    equal = w.do("Equal", column, w.unsqueeze(data, [0]))
    before = w.do("And", equal, number[None, :] < number[:, None])
    repeats = w.reduce("ReduceSum", w.cast(before, "int64"), [1], keepdims=False)
    at = positions(w, w.do("Equal", repeats, np.array(0)), count)
    at = _in_order(w, data, at, count) if node.attributes.get("sorted", 1) else w.do("Identity", at)
    values = w.do("Gather", data, at, axis=0)
    for index, value in ((0, values), (1, at)):
        if node.used(index):
            w.do("Identity", value, result=f"y{index}")
    if node.used(2) or node.used(3):
        _write_members(w, column, values, count)
    declares = f"the model declares {count} different elements: others are cut off"
    return Replacement(
        w.nodes(),
        "all pairs compared",
        numerics=declares if size > 1 else "",
    )


def _in_order(w: Writer, data: str, first_at: str, count: int) -> str:
    """bfloat16 is exact in float32, which TopK sorts everywhere."""
    unsorted = w.do("Gather", data, first_at, axis=0)
    exact = w.node.dtype(0) == "bfloat16"
    keys = w.cast(unsorted, "float32") if exact else w.do("Identity", unsorted)
    w.many("TopK", [keys, w.ints(count)], ["ordered", "order"], largest=0)
    return w.do("Gather", first_at, "order", axis=0)


def _write_members(w: Writer, column: str, values: str, count: int) -> None:
    """Which of the values each element is, and how many are."""
    membership = w.cast(w.do("Equal", column, w.unsqueeze(values, [0])), "int64")
    if w.node.used(2):
        w.reduce("ReduceSum", w.do("Mul", membership, np.arange(count)), [1], False, "y2")
    if w.node.used(3):
        w.reduce("ReduceSum", membership, [0], False, "y3")


UNIQUE = NodeRule(
    "unique",
    "Unique of a known number of results",
    ("Unique",),
    _rewrite,
)
