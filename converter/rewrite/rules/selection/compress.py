"""Rewrites Compress with a known number of results as a Gather of the selected elements.

Others are left to the plugin, where it takes the type.
"""

from __future__ import annotations

from shlex import quote

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.plugin_call import as_element, from_element, is_element, plugin_outputs
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.builder import TO_END
from trtsmith.importers.counted import counted
from trtsmith.importers.registry import standing_for

PLUGIN = standing_for("Compress")


@node_rule("compress-plugin", "Compress")
def compress_plugin_rule(node: NodeView) -> Replacement | None:
    """Rewrites Compress as a plugin."""
    dtype = node.dtype(0)
    if not is_element(dtype):
        return None
    flat = not node.given("axis")
    axis = 0 if flat else int(node.attributes["axis"])
    w = Writer(node)
    element = as_element(w, w.x[0], dtype)
    data = w.Reshape(element, shape=[-1]) if flat else element
    output, _ = plugin_outputs(w, PLUGIN, [data, w.x[1]], {"axis": axis})
    return Replacement(w.finish(from_element(w, output, dtype)), f"plugin {PLUGIN.name}")


def positions(w: Writer, mask: Value, count: int) -> Value:
    """Returns the first `count` positions of true elements of the bool vector `mask`, in order.

    Each position is written to the place that the number of true ones before it gives; those that are not true, or
    come too late, to one place behind, which is cut off. Where fewer are true, the rest is 0.
    """
    zero, most = w.constant(0), w.constant(count)
    before = w.CumSum(w.Cast(mask, to="int64"), zero, exclusive=1)
    place = w.Where(w.And(w.Less(before, most), mask), before, most)
    every = w.Range(zero, w.Squeeze(w.Shape(mask)), 1)
    written = w.ScatterND(np.zeros_like(w.numbers(count + 1)), w.Unsqueeze(place, axes=[1]), every)
    return w.slice(written, [0], [count], [0])


@node_rule("compress", "Compress")
def compress_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites Compress as a Gather."""
    rank = node.rank(0)
    flat = not node.given("axis")
    axis = 0 if flat or not rank else int(node.attributes["axis"]) % rank
    w = Writer(node)
    data = w.Reshape(w.x[0], shape=[-1]) if flat else w.x[0]
    condition = node.constant(1)
    if condition is not None:
        chosen = np.flatnonzero(condition)
        return Replacement(
            w.finish(w.Gather(data, chosen, axis=axis)), "a Gather, as the condition is constant"
        )
    declared = node.output_shape(0)
    count = declared[axis] if declared else None
    if count is None:
        return Refusal(
            f"the number of selected elements depends on {node.input(1)!r}, which is computed at run time",
            "a constant condition, or an output whose size is declared",
            f"freeze it: --freeze {quote(node.input(1))}=VALUES; or give the output its size in the model",
        )
    chosen_first = positions(w, w.slice(w.x[1], [0], [TO_END], [0]), count)
    return Replacement(
        w.finish(w.Gather(data, chosen_first, axis=axis)),
        f"a Gather of {counted(count, 'element')}, as the model declares",
        numerics=f"the model lets {counted(count, 'element')} pass: more are cut off, for fewer the first is repeated",
    )
