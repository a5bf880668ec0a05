"""Writes the positions at which a mask is true, as a tensor of a size that is known beforehand."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.statement_writer import Writer


def positions(w: Writer, mask: str, count: int) -> str:
    """The first `count` positions of the bool vector `mask` that are true, in order.

    Each position is written to the place that the number of true ones before it gives; those that are not true, or
    come too late, to one place behind, which is cut off. Where fewer are true, the rest is 0.
    """
    zero, most = w.const(np.array(0)), w.const(np.array(count))
    before = w.do("CumSum", w.cast(mask, "int64"), zero, exclusive=1)
    used = w.do("And", w.do("Less", before, most), mask)
    place = w.do("Where", used, before, most)
    every = w.do("Range", zero, w.do("Squeeze", w.do("Shape", mask)), np.array(1))
    written = w.do("ScatterND", np.zeros(count + 1, np.int64), w.unsqueeze(place, [1]), every)
    return w.slice_(written, [0], [count], [0])
