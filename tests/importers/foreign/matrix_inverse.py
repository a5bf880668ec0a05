"""Matrix inverse, as other tools write it. The oracle solves A x = e column by column instead of inverting."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Inconsistent

INVERSE = "MatrixInverse"


def matrices() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(5)
    return {"x": (rng.normal(size=(2, 3, 4, 4)) + 4 * np.eye(4)[::-1]).astype(np.float32)}


def solved(inputs: Arrays) -> np.ndarray:
    x = inputs["x"].astype(np.float64)
    return np.stack(
        [np.linalg.solve(x, np.broadcast_to(e[:, None], (2, 3, 4, 1)))[..., 0] for e in np.eye(4)], -1
    )


EXAMPLES = (
    Example(INVERSE, "Inverse", "com.microsoft", {}, matrices, solved),
    Example(INVERSE, "InverseTRT", "", {}, matrices, solved),
    Example(INVERSE, "InversePlugin", "custom_op", {}, matrices, solved),
    Example(INVERSE, INVERSE, "trtsmith", {}, matrices, solved),
)

INCONSISTENT = (
    Inconsistent(INVERSE, {"x": (2, 4, 4)}, {"x": (2, 4, 5)}, "the matrices of x are not square: 4 x 5"),
    Inconsistent(INVERSE, {"x": (4, 4)}, {"x": (4,)}, "x has rank 1"),
)
