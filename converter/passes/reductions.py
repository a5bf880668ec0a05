"""The reductions that a scatter may do: by which operator, and the value that changes no other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reduction:
    """combine: the operator for two values. over: the one for an axis."""

    combine: str
    over: str

    def neutral(self, dtype: str) -> np.ndarray:
        """The value that changes no other, as a scalar of the type."""
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
    "add": Reduction("Add", "ReduceSum"),
    "mul": Reduction("Mul", "ReduceProd"),
    "max": Reduction("Max", "ReduceMax"),
    "min": Reduction("Min", "ReduceMin"),
}
