"""Unique over all elements whose number of results is known beforehand: declared by the model, or one element.

An element is the first of its kind if no earlier one is equal; all pairs are compared. Other nodes, and those along an
axis, are left to the plugin (unique_plugin.py), where it takes the type.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import read_by, reduce, unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements
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
    text, constants = positions("first_at", "is_first", count, node.opset)
    number = np.arange(size)
    constants |= {
        "flat": np.array([-1]),
        "zero": np.array(0),
        "earlier": number[None, :] < number[:, None],
        "k": np.array([count]),
        "numbers": np.arange(count),
    }
    sorted_ = node.attributes.get("sorted", 1)
    body = f"""
        data = Reshape (x0, flat)
        {unsqueeze("column", "data", [1], node.opset)}
        {unsqueeze("row", "data", [0], node.opset)}
        equal = Equal (column, row)
        before = And (equal, earlier)
        counted = Cast <to = 7> (before)
        {reduce("ReduceSum", "repeats", "counted", [1], node.opset, keepdims=False)}
        is_first = Equal (repeats, zero)
        {text}
        {_in_order(node.dtype(0)) if sorted_ else "at = Identity (first_at)"}
        values = Gather <axis = 0> (data, at)
        {"y0 = Identity (values)" if node.used(0) else ""}
        {"y1 = Identity (at)" if node.used(1) else ""}
        {_members(node) if node.used(2) or node.used(3) else ""}
    """
    declares = f"the model declares {count} different elements: others are cut off"
    return Replacement(
        statements(node, body, **read_by(body, constants)),
        "all pairs compared",
        numerics=declares if size > 1 else "",
    )


def _in_order(dtype: str | None) -> str:
    """bfloat16 is exact in float32, which TopK sorts everywhere."""
    return f"""
        unsorted = Gather <axis = 0> (data, first_at)
        keys = {"Cast <to = 1>" if dtype == "bfloat16" else "Identity"} (unsorted)
        ordered, order = TopK <largest = 0> (keys, k)
        at = Gather <axis = 0> (first_at, order)
    """


def _members(node: NodeView) -> str:
    """Which of the values each element is, and how many are."""
    lines = [
        unsqueeze("kinds", "values", [0], node.opset),
        "member = Equal (column, kinds)",
        "membership = Cast <to = 7> (member)",
    ]
    if node.used(2):
        lines.append("weighed = Mul (membership, numbers)")
        lines.append(reduce("ReduceSum", "y2", "weighed", [1], node.opset, keepdims=False))
    if node.used(3):
        lines.append(reduce("ReduceSum", "y3", "membership", [0], node.opset, keepdims=False))
    return "\n".join(lines)


UNIQUE = NodeRule(
    "unique",
    "Unique of a known number of results",
    ("Unique",),
    _rewrite,
)
