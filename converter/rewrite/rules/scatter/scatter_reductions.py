"""Lists the reductions of scatters with their operators and neutral values, and splits long scatters into parts.

Updates are compared in pairs to find those of one element. Many are taken in parts, one after the other, so that the
pairs of one part are few; each part scatters into what the one before it gave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ScatterReduction:
    """combine: the operator on two values. over: the reduction along an axis."""

    combine: str
    over: str

    def neutral(self, dtype: str) -> np.ndarray:
        """Returns the neutral value of the reduction, as a scalar of the type."""
        kind = np.dtype(dtype)
        if self.combine in ("Max", "Min"):
            sign = -1 if self.combine == "Max" else 1
            if dtype == "bool":
                return np.array(sign > 0)
            if kind.kind in "iu":
                info = np.iinfo(kind)
                return np.array(info.min if sign < 0 else info.max, kind)
            return np.array(sign * np.inf).astype(kind)
        return np.array(int(self.combine == "Mul")).astype(kind)


REDUCTIONS = {
    "add": ScatterReduction("Add", "ReduceSum"),
    "mul": ScatterReduction("Mul", "ReduceProd"),
    "max": ScatterReduction("Max", "ReduceMax"),
    "min": ScatterReduction("Min", "ReduceMin"),
}

PAIRS = 1 << 26
"""Elements of the largest tensor of pairs: 256 MiB of float32."""

PARTS = 64
"""Of some 15 nodes each."""

Part = tuple[int, int]


def parts(length: int | None, width: int) -> list[Part] | None:
    """Starts and ends that cut `length` updates of `width` elements; [] to cut nothing, None if PARTS parts are too few.

    Updates whose number is not known are not cut.
    """
    if length is None or length * length * width <= PAIRS:
        return []
    step = max(1, math.isqrt(PAIRS // max(1, width)))
    if step * PARTS < length:
        return None
    return [(start, min(start + step, length)) for start in range(0, length, step)]
