"""Matrix inverse, as other tools write it. The oracle solves A x = e column by column instead of inverting."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.importers.foreign.model import Arrays, Example, Huge, HugeCase, Inconsistent, numbers

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


def huge(count: int, device: str) -> Huge:
    """Matrices of 4x4, far from singular: at 2^27 and more, input and output have 2.15e9 elements each (4.3 GB)."""
    import torch

    x = torch.randn(count, 4, 4, device=device, dtype=torch.float16).mul_(0.2)
    x.diagonal(dim1=1, dim2=2).add_(2)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        places = {"first matrices": slice(0, 500), "last matrices": slice(count - 500, count)}
        return [
            (place, numbers(outputs[0][part]), np.linalg.inv(numbers(x[part])))
            for place, part in places.items()
        ]

    return Huge({}, {"x": x}, check)


HUGE = HugeCase(huge, size=2**27 + 1000, small=1200)
