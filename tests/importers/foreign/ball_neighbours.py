"""Ball query, with the public kernels' loops as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.importers.foreign._clouds import FAR, points, square
from tests.importers.foreign.model import Arrays, Example, Inconsistent

BALL = "BallNeighbours"
RADIUS, MOST = 1.25, 4


def clouds() -> tuple[np.ndarray, np.ndarray]:
    """Points, and queries of which two are at points and the last is near none."""
    queries = points(2, 6, 3)
    queries[:, 5] = FAR
    cloud = points(2, 30, 3)
    cloud[:, 3:5] = queries[:, :2]
    return cloud, queries


def inputs() -> dict[str, np.ndarray | None]:
    cloud, queries = clouds()
    return {"points": cloud, "queries": queries}


def oracle(inner: float = 0.0) -> Callable[[Arrays], tuple[np.ndarray, np.ndarray]]:
    def expected(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
        cloud, queries = arrays["points"], arrays["queries"]
        index = np.zeros((*queries.shape[:2], MOST), np.int64)
        count = np.zeros(queries.shape[:2], np.int64)
        for b, m in np.ndindex(*count.shape):
            for k, point in enumerate(cloud[b]):
                distance = square(queries[b, m], point)
                if distance < RADIUS**2 and (distance >= inner**2 or distance == 0):
                    if count[b, m] == 0:
                        index[b, m] = k
                    index[b, m, count[b, m]] = k
                    count[b, m] += 1
                    if count[b, m] == MOST:
                        break
        return count, index

    return expected


FIELDS = {"radius": RADIUS, "inner_radius": 0.5, "neighbours": MOST}

EXAMPLES = (Example(BALL, BALL, "trtsmith", FIELDS, inputs, oracle(0.5)),)

SHAPES = {"points": (2, 9, 3), "queries": (2, 5, 3)}

INCONSISTENT = (
    Inconsistent(BALL, SHAPES, {"points": (3, 9, 3)}, "queries[0] = 2, but points[0] = 3", FIELDS),
    Inconsistent(BALL, SHAPES, {"queries": (2, 5, 4)}, "queries[2] = 4, but points[2] = 3", FIELDS),
    Inconsistent(BALL, SHAPES, {"points": (2, 9, 2), "queries": (2, 5, 2)}, "points[2] = 2, not 3", FIELDS),
    Inconsistent(BALL, SHAPES, {"points": (2, 2**30, 3)}, "points[1] = 1073741824", FIELDS),
)


HUGE = "of more than 2^31 coordinates, the pairs would take minutes; addresses are 64-bit"
