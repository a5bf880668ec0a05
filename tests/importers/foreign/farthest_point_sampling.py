"""Farthest point sampling, with the public kernels' loops as the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.importers.foreign._clouds import points, square
from tests.importers.foreign.model import Arrays, Example, Inconsistent

SAMPLING = "FarthestPointSampling"
SAMPLES = 6


def inputs() -> dict[str, np.ndarray | None]:
    """Two clouds; the second's first points are at the origin, and one of its others within 0.0316 of it."""
    clouds = points(2, 21, 3)
    clouds[1, :4] = 0
    clouds[1, 7] = [0.03125, 0, 0]
    return {"points": clouds}


def oracle(reach: float) -> Callable[[Arrays], np.ndarray]:
    """reach: the square of the distance from the origin within which points do not count."""

    def expected(arrays: Arrays) -> np.ndarray:
        taken = []
        for cloud in arrays["points"]:
            least, chosen = [np.float32(1e10)] * len(cloud), [0]
            while len(chosen) < SAMPLES:
                best, at = -1.0, 0
                for k, point in enumerate(cloud):
                    if square(point, np.zeros(3)) <= reach:
                        continue
                    least[k] = min(least[k], square(point, cloud[chosen[-1]]))
                    best, at = (least[k], k) if least[k] > best else (best, at)
                chosen.append(at)
            taken.append(chosen)
        return np.array(taken)

    return expected


FIELDS = {"samples": SAMPLES, "skip_origin": 0}

EXAMPLES = (
    Example(SAMPLING, SAMPLING, "trtsmith", FIELDS, inputs, oracle(-1)),
    Example(
        SAMPLING, SAMPLING, "trtsmith", {**FIELDS, "skip_origin": 1}, inputs, oracle(1e-3), note="skip_origin"
    ),
)

INCONSISTENT = (
    Inconsistent(SAMPLING, {"points": (2, 9, 3)}, {"points": (2, 9, 4)}, "points[2] = 4, not 3", FIELDS),
    Inconsistent(
        SAMPLING, {"points": (2, 9, 3)}, {"points": (2, 0, 3)}, "points[1] = 0, and the first", FIELDS
    ),
    Inconsistent(SAMPLING, {"points": (2, 9, 3)}, {"points": (1, 2**30, 3)}, "more than 1073741823", FIELDS),
)


HUGE = "of more than 2^31 coordinates, a cloud's steps would take minutes; addresses are 64-bit"
