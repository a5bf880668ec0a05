"""Measures errors against a float64 reference, and decides which are allowed."""

from __future__ import annotations

import math

import numpy as np

TF32 = "tf32"
"""float32, every factor of a product of which is rounded to 11 digits."""

UNIT_ROUNDOFF = {"float32": 2.0**-24, TF32: 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Largest relative error of rounding one number to nearest."""

FEW = 64
"""Below so many elements an error may be small by luck, the framework's as well as that of rounding."""


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """||found - expected|| / ||expected||; the largest difference where expected is all zeros.

    Infinite where the shapes differ or where one of them is not finite and the other is not the same.
    """
    if found.shape != expected.shape:
        return math.inf
    got, wanted = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.isfinite(got[finite]).all() or not np.array_equal(
        got[~finite], wanted[~finite], equal_nan=True
    ):
        return math.inf
    difference = got[finite] - wanted[finite]
    if not difference.size:
        return 0.0
    norm = float(np.linalg.norm(wanted[finite]))
    return float(np.linalg.norm(difference)) / norm if norm else float(np.abs(difference).max())


def allowed_error(framework: float | None, rounding: float, elements: int, dtype: str) -> float:
    """Twice the framework's error, or twice the rounding error of the exact result in dtype if that is larger.

    framework: None where no framework computes this. Outputs of few elements may have two units of roundoff.
    """
    base = max(rounding, framework or 0.0)
    if elements < FEW:
        base = max(base, UNIT_ROUNDOFF[dtype])
    return 2 * base


def allowed_tolerance(framework: float) -> float:
    """The largest tolerance that an operator may have for a dtype, given the framework's largest error."""
    return 2 * framework
