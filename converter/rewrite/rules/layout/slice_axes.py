"""Gives a Slice its axes and steps where it leaves them out and cuts only some axes.

TensorRT-RTX 1.7.1 takes all axes for those that are left out ("The shape of input starts misaligns with the shape of input
axes"), and as many steps if the numbers are int32 ("Slice steps length 3 does not equal starts length 2"). It also fails
where a step is negative along an axis without elements, as in a flip of nothing: such an axis is not cut.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer


@node_rule("slice-axes", "Slice")
def slice_axes_rule(node: NodeView) -> Replacement | None:
    """Gives a Slice of some axes explicit axes and steps, and leaves out backward cuts of empty axes."""
    dims, counts = node.shape(0), [shape[0] for shape in map(node.shape, (1, 2)) if shape]
    count = next((count for count in counts if count is not None), None)
    if node.version < 10 or dims is None or count is None:
        return None
    axes = node.constant(3) if node.input(3) else np.arange(count, dtype=node.dtype(1))
    if axes is None:
        return None
    steps = node.constant(4) if node.input(4) else np.ones(count, axes.dtype)
    kept = [i for i in range(count) if steps is None or steps[i] > 0 or dims[axes[i]] != 0]
    named = node.input(3) and (node.input(4) or node.dtype(1) == "int64")
    if len(kept) == count and (named or count == len(dims)):
        return None
    w = Writer(node)
    if not kept:
        return Replacement(w.finish(w.x[0]), "nothing is cut")
    starts, ends = (w.Gather(end, kept, axis=0) if len(kept) < count else end for end in w.x[1:3])
    sliced = w.Slice(w.x[0], starts, ends, axes[kept], w.x[4] if steps is None else steps[kept])
    return Replacement(w.finish(sliced), "Slice with its axes and steps")
