"""Counts the elements in each window of an average pooling: the pooling of ones, one axis at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.pooling.pool_windows import Window, clipped, padded, pooled


def counts(
    w: Writer, given: Value, wins: Sequence[Window], rank: int, dtype: str, include_pad: bool
) -> Value:
    """How many elements each window averages, of a shape that broadcasts to the result; float.

    With include_pad the padding counts, but not what only ceil_mode looks into.
    """
    factors: list[Value] = []
    number = 1.0
    for win in wins:
        regular = include_pad or (win.begin == 0 and win.end == 0)
        if regular and not win.extra:
            number *= win.kernel
            continue
        factors.append(_counts_along(w, given, win, rank, dtype, include_pad))
    result = factors[0] if factors else w.number(number, dtype)
    for factor in factors[1:]:
        result = w.Mul(result, factor)
    if factors and number != 1:
        result = w.Mul(result, w.number(number, dtype))
    return result


def _counts_along(w: Writer, given: Value, win: Window, rank: int, dtype: str, include_pad: bool) -> Value:
    """The same along one axis: the pooling of ones."""
    flat = Window(0, win.size, win.kernel, win.stride, win.dilation, win.begin, win.end, win.extra, win.lower)
    if win.size is not None and win.begin is not None and win.end is not None:
        ones = np.ones(win.size + include_pad * (win.begin + win.end))
        edges = (0, win.extra) if include_pad else (win.begin, win.end + win.extra)
        line = np.pad(ones, edges)
        found = sum(
            line[t * win.dilation : len(line) - (win.kernel - 1 - t) * win.dilation : win.stride]
            for t in range(win.kernel)
        )
        limit = (win.size + win.begin - 1) // win.stride + 1
        found = np.asarray(found)[:limit] if win.extra else np.asarray(found)
        shape = [-1 if axis == win.axis else 1 for axis in range(rank)]
        return w.constant(found.reshape(shape).astype(dtype))
    whole = w.Expand(w.number(1.0, dtype), w.size(given, win.axis))
    if include_pad and win.begin is not None and win.end is not None:
        line_of_ones = w.pad(w.pad(whole, [win.begin, win.end], 1.0, dtype), [0, win.extra])
    else:
        line_of_ones = padded(w, whole, [flat], 1)
    counted = pooled(w, line_of_ones, [flat], lambda parts: w.Sum(*parts))
    counted = clipped(w, counted, whole, [flat])
    return w.unsqueeze(counted, [axis for axis in range(rank) if axis != win.axis])
