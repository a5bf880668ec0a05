"""Shared by the examples of rotated boxes: the oracle of their overlap."""

from __future__ import annotations

import numpy as np

_STEPS = 600


def _inside(box: np.ndarray, x: np.ndarray, y: np.ndarray, turn: float) -> np.ndarray:
    sine, cosine = np.sin(turn * box[4]), np.cos(turn * box[4])
    along, across = (x - box[0]) * cosine + (y - box[1]) * sine, (y - box[1]) * cosine - (x - box[0]) * sine
    found: np.ndarray = (abs(along) <= box[2] / 2) & (abs(across) <= box[3] / 2)
    return found


def overlap(a: np.ndarray, b: np.ndarray, turn: float = 1.0) -> float:
    """Intersection over union of boxes (x, y, width, height, angle), by the points of a grid over the first: to 1 in 300.

    turn: 1 for angles from x towards y, -1 for the other way.
    """
    along, across = np.meshgrid(*[(np.arange(_STEPS) + 0.5) / _STEPS - 0.5] * 2)
    sine, cosine = np.sin(turn * a[4]), np.cos(turn * a[4])
    x = a[0] + along * a[2] * cosine - across * a[3] * sine
    y = a[1] + along * a[2] * sine + across * a[3] * cosine
    area = a[2] * a[3]
    common = area * float(_inside(b, x, y, turn).mean())
    return common / (area + b[2] * b[3] - common)
