"""Writes the positions at which a mask is true, as a tensor of a size that is known beforehand."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer


def positions(w: Writer, mask: Value, count: int) -> Value:
    """The first `count` positions of the bool vector `mask` that are true, in order.

    Each position is written to the place that the number of true ones before it gives; those that are not true, or
    come too late, to one place behind, which is cut off. Where fewer are true, the rest is 0.
    """
    zero, most = w.constant(0), w.constant(count)
    before = w.CumSum(w.Cast(mask, to="int64"), zero, exclusive=1)
    place = w.Where(w.And(w.Less(before, most), mask), before, most)
    every = w.Range(zero, w.Squeeze(w.Shape(mask)), 1)
    written = w.ScatterND(np.zeros(count + 1, np.int64), w.Unsqueeze(place, axes=[1]), every)
    return w.slice(written, [0], [count], [0])
