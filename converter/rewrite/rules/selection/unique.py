"""Rewrites Unique over all elements whose number of results is declared by the model, or is one.

An element is the first of its kind if no earlier one is equal; all pairs are compared. Other nodes, and those along an
axis, are left to the plugin, where it takes the type.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import as_element, from_element, is_element, plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.selection.compress import positions
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("Unique")


@node_rule("unique-plugin", "Unique")
def unique_plugin_rule(node: NodeView) -> Replacement | None:
    """Rewrites Unique as a plugin."""
    dtype = node.dtype(0)
    if not is_element(dtype):
        return None
    flat = not node.given("axis")
    fields = {
        "axis": 0 if flat else int(node.attributes["axis"]),
        "sorted": int(node.attributes.get("sorted", 1)),
    }
    w = Writer(node)
    element = as_element(w, w.x[0], dtype)
    data = w.Reshape(element, shape=[-1]) if flat else element
    output, *indices, _ = plugin_outputs(w, PLUGIN, [data], fields)
    return Replacement(w.finish(from_element(w, output, dtype), *indices), f"plugin {PLUGIN.name}")


LARGEST = 1 << 14
"""Elements; their pairs are 2^28."""


@node_rule("unique", "Unique")
def unique_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Unique with a known number of results."""
    shape = node.shape(0)
    size = int(np.prod(np.array(shape, dtype=object))) if shape is not None and None not in shape else None
    declared = [node.output_shape(i) for i in (0, 1, 3)]
    counts = [size] if size == 1 else [s[0] for s in declared if s and s[0] is not None]
    flat = not node.given("axis") or (shape is not None and len(shape) == 1)
    if not flat or not counts or size is None or size > LARGEST or node.opset < 11:
        return Refusal(
            f"how many different {'elements' if flat else 'slices'} {node.input(0)!r} of shape "
            f"{list(shape) if shape is not None else 'unknown'} has is known only at run time",
            f"elements of a tensor of known shape, at most {LARGEST:,}, and an output whose size is declared",
            "take Unique out of the model and call numpy.unique on the engine's output, or give its outputs sizes",
        )
    count = counts[0]
    w, number = Writer(node), np.arange(size)
    data = w.Reshape(w.x[0], shape=[-1])
    column = w.Unsqueeze(data, axes=[1])
    before = w.And(w.Equal(column, w.Unsqueeze(data, axes=[0])), w.Less(number[None, :], number[:, None]))
    repeats = w.reduce("ReduceSum", w.Cast(before, to="int64"), [1], keepdims=False)
    at = positions(w, w.Equal(repeats, 0), count)
    at = _in_order(w, data, at, count) if node.attributes.get("sorted", 1) else at
    values = w.Gather(data, at, axis=0)
    declares = f"the model declares {count} different elements: others are cut off"
    return Replacement(
        w.finish(values, at, *_members(w, column, values, count)),
        "all pairs compared",
        numerics=declares if size > 1 else "",
    )


def _in_order(w: Writer, data: Value, first_at: Value, count: int) -> Value:
    """The first occurrences in order of value. bfloat16 is sorted in float32, which TopK takes everywhere."""
    unsorted = w.Gather(data, first_at, axis=0)
    exact = w.node.dtype(0) == "bfloat16"
    keys = w.Cast(unsorted, to="float32") if exact else unsorted
    _, order = w.TopK(keys, [count], outputs=2, largest=0)
    return w.Gather(first_at, order, axis=0)


def _members(w: Writer, column: Value, values: Value, count: int) -> tuple[Value, Value]:
    """For each element, the number of its value among `values`; and the count of each value."""
    membership = w.Cast(w.Equal(column, w.Unsqueeze(values, axes=[0])), to="int64")
    numbers = w.reduce("ReduceSum", w.Mul(membership, w.numbers(count)), [1], keepdims=False)
    return numbers, w.reduce("ReduceSum", membership, [0], keepdims=False)
