"""One set of outputs against another: what agrees, and by how much each differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from converter.verify.tolerances import TOLERANCE, Tolerances

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Comparison:
    """One output. Differences are absolute; `relative` is the ratio of norms; `worst` is the index of the largest."""

    output: str
    dtype: str
    shape: tuple[int, ...]
    agrees: bool
    reason: str
    relative: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    p99: float = 0.0
    worst: tuple[int, ...] = ()


def compare(
    expected: Arrays,
    actual: Arrays,
    tolerances: Tolerances | None = None,
    allowed: Mapping[str, float] | None = None,
) -> tuple[Comparison, ...]:
    """Every expected output against the actual one of that name.

    allowed: by output, where `tolerances` says nothing of it: the ratio of norms, or the share of whole numbers that may
        differ. An output that is not there has TOLERANCE, and whole numbers have to be equal.
    """
    return tuple(
        _compare(name, value, actual.get(name), tolerances, (allowed or {}).get(name))
        for name, value in expected.items()
    )


def _compare(
    name: str,
    expected: np.ndarray,
    actual: np.ndarray | None,
    tolerances: Tolerances | None,
    allowed: float | None,
) -> Comparison:
    dtype, shape = str(expected.dtype), tuple(expected.shape)
    if actual is None:
        return Comparison(name, dtype, shape, False, "missing")
    if tuple(actual.shape) != shape:
        return Comparison(name, dtype, shape, False, f"shape {list(actual.shape)}, expected {list(shape)}")
    if actual.dtype != expected.dtype:
        return Comparison(name, dtype, shape, False, f"dtype {actual.dtype}, expected {dtype}")
    if expected.dtype.kind in "iub":
        different = np.argwhere(actual != expected)
        if len(different) == 0:
            return Comparison(name, dtype, shape, True, "equal")
        worst = tuple(int(i) for i in different[0])
        most = int((allowed or 0.0) * expected.size)
        reason = f"{len(different)} elements differ" + (f", allowed {most}" if most else "")
        return Comparison(name, dtype, shape, len(different) <= most, reason, worst=worst)
    if dtype not in TOLERANCE:
        return Comparison(name, dtype, shape, False, f"dtype {dtype} cannot be compared")
    ratio = TOLERANCE[dtype] if allowed is None else allowed
    return _compare_floats(
        name, dtype, expected.astype(np.float64), actual.astype(np.float64), tolerances, ratio
    )


def _compare_floats(
    name: str,
    dtype: str,
    expected: np.ndarray,
    actual: np.ndarray,
    tolerances: Tolerances | None,
    ratio: float,
) -> Comparison:
    shape = tuple(expected.shape)
    if expected.size == 0:
        return Comparison(name, dtype, shape, True, "empty")
    same = (expected == actual) | (
        np.isnan(expected) & np.isnan(actual)
    )  # infinities and NaN must match exactly
    finite = np.isfinite(expected) & np.isfinite(actual)
    if not np.all(same | finite):
        worst = tuple(int(i) for i in np.argwhere(~(same | finite))[0])
        return Comparison(
            name, dtype, shape, False, f"{actual[worst]} where {expected[worst]} is expected", worst=worst
        )
    difference = np.where(finite, np.abs(np.where(finite, actual, 0) - np.where(finite, expected, 0)), 0.0)
    reference_norm = float(np.linalg.norm(np.where(finite, expected, 0)))
    difference_norm = float(np.linalg.norm(difference))
    relative = (
        difference_norm / reference_norm
        if reference_norm
        else (0.0 if difference_norm == 0 else float("inf"))
    )
    limits = tolerances.of(name) if tolerances is not None else None
    if limits is not None:
        bound = limits[1] + limits[0] * np.abs(np.where(finite, expected, 0))
        outside = int(np.count_nonzero(difference > bound))
        agrees, reason = outside == 0, f"{outside} elements beyond rtol {limits[0]:g}, atol {limits[1]:g}"
    else:
        agrees, reason = relative <= ratio, f"relative error {relative:.1e}, allowed {ratio:.2g}"
    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(difference)), shape))
    return Comparison(
        name,
        dtype,
        shape,
        agrees,
        reason,
        relative,
        float(difference.max()),
        float(difference.mean()),
        float(np.quantile(difference, 0.99)),
        worst,
    )
