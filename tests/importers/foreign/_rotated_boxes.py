"""Shared by the examples of rotated boxes: the oracle of their overlap."""

from __future__ import annotations

import numpy as np

_LINES = 600


def overlap(a: np.ndarray, b: np.ndarray, turn: float = 1.0) -> float:
    """Intersection over union of boxes (x, y, width, height, angle), by lines along the first: to 1 in 300.

    Of each line, the stretch within the second box counts, which its two pairs of sides bound.
    turn: 1 for angles from x towards y, -1 for the other way.
    """
    across = ((np.arange(_LINES) + 0.5) / _LINES - 0.5) * a[3]
    sine, cosine = np.sin(turn * a[4]), np.cos(turn * a[4])
    # Where each line passes the middle of the first, seen from the middle of the second.
    x, y = a[0] - b[0] - across * sine, a[1] - b[1] + across * cosine
    sine_b, cosine_b = np.sin(turn * b[4]), np.cos(turn * b[4])
    first, last = np.full(_LINES, -a[2] / 2), np.full(_LINES, a[2] / 2)
    for size, u, v in ((b[2], cosine_b, sine_b), (b[3], -sine_b, cosine_b)):  # the directions of b's sides
        slope, middle = cosine * u + sine * v, x * u + y * v
        if abs(slope) < 1e-12:  # parallel to these sides: all of the line, or nothing
            last = np.where(abs(middle) <= size / 2, last, first)
            continue
        ends = np.sort([(side - middle) / slope for side in (-size / 2, size / 2)], axis=0)
        first, last = np.maximum(first, ends[0]), np.minimum(last, ends[1])
    common = float(np.maximum(last - first, 0).mean()) * a[3]
    return common / float(a[2] * a[3] + b[2] * b[3] - common)
