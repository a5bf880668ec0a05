"""The nearest points, with the public kernels' insertion as the oracle."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign._clouds import near, points
from tests.importers.foreign.model import Example, Inconsistent

NEAREST = "NearestNeighbours"
K = 4


def inputs() -> dict[str, np.ndarray | None]:
    return {"points": points(2, 11, 3), "queries": points(2, 5, 3)}


EXAMPLES = (
    Example(
        NEAREST,
        NEAREST,
        "trtsmith",
        {"neighbours": K},
        inputs,
        lambda a: near(a["points"], a["queries"], K),
    ),
)

SHAPES = {"points": (2, 9, 3), "queries": (2, 5, 3)}

INCONSISTENT = (
    Inconsistent(
        NEAREST, SHAPES, {"points": (3, 9, 3)}, "queries[0] = 2, but points[0] = 3", {"neighbours": K}
    ),
    Inconsistent(
        NEAREST, SHAPES, {"queries": (2, 5, 4)}, "queries[2] = 4, but points[2] = 3", {"neighbours": K}
    ),
)


HUGE = "of more than 2^31 coordinates, the pairs would take minutes; addresses are 64-bit"
