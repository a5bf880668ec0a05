"""Compress of a known number of results: a Gather of the elements that the condition lets through.

Others are left to the plugin (compress_plugin.py), where it takes the type.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import slice_
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.selection.positions import positions


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    rank = node.rank(0)
    flat = not node.given("axis")
    axis = 0 if flat or not rank else int(node.attributes["axis"]) % rank
    data = "data = Reshape (x0, flat)" if flat else "data = Identity (x0)"
    flat_shape = {"flat": np.array([-1])} if flat else {}
    gather = f"y0 = Gather <axis = {axis}> (data, chosen)"
    condition = node.constant(1)
    if condition is not None:
        chosen = np.flatnonzero(condition)
        nodes = statements(node, f"{data}\n{gather}", chosen=chosen, **flat_shape)
        return Replacement(nodes, "a Gather, as the condition is constant")
    declared = node.output_shape(0)
    count = declared[axis] if declared else None
    if count is None:
        return Refusal(
            f"how many elements pass depends on {node.input(1)!r}, which is computed at run time",
            "a constant condition, or an output whose size is declared",
            f"freeze it: --freeze {node.input(1)}=VALUES; or give the output its size in the model",
        )
    text, constants = positions("chosen", "mask", count, node.opset)
    whole = slice_("mask", "x1", [0], [(1 << 63) - 1], [0], node.opset)
    return Replacement(
        statements(node, f"{data}\n{whole}\n{text}\n{gather}", **constants, **flat_shape),
        f"a Gather of {count} elements, as the model declares",
        numerics=f"the model declares that {count} elements pass: more are cut off, for fewer the first is repeated",
    )


COMPRESS = NodeRule(
    "compress",
    "Compress as a Gather",
    ("Compress",),
    _rewrite,
)
