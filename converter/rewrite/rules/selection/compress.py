"""Rewrites Compress of a known number of results as a Gather of the elements that the condition lets through.

Others are left to the plugin (compress_plugin.py), where it takes the type.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.selection.positions import positions
from trtsmith.importers.builder import TO_END


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
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
            f"how many elements pass depends on {node.input(1)!r}, which is computed at run time",
            "a constant condition, or an output whose size is declared",
            f"freeze it: --freeze {node.input(1)}=VALUES; or give the output its size in the model",
        )
    chosen_first = positions(w, w.slice(w.x[1], [0], [TO_END], [0]), count)
    return Replacement(
        w.finish(w.Gather(data, chosen_first, axis=axis)),
        f"a Gather of {count} elements, as the model declares",
        numerics=f"the model declares that {count} elements pass: more are cut off, for fewer the first is repeated",
    )


COMPRESS = NodeRule(
    "compress",
    "Compress as a Gather",
    ("Compress",),
    _rewrite,
)
