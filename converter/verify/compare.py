"""Compares two sets of outputs: which agree, and by how much each differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from trtsmith.converter.verify.noise import Excess, Noise, excess
from trtsmith.converter.verify.tolerances import TOLERANCE, Tolerances
from trtsmith.importers.counted import counted
from trtsmith.importers.opdef import Arrays

_NEARLY = 1000
"""An output that is zero, or not finite, in all but one of this many elements says next to nothing."""

_SAME = 16
"""Elements from which on one value for all of them says next to nothing; fewer are often equal by right."""


@dataclass(frozen=True)
class Comparison:
    """One output. Differences are absolute; `relative` is the ratio of norms.

    worst:            index of the largest difference; where elements are beyond their bounds, of that furthest beyond; ()
        where there is none.
    expected, actual: the two values at `worst`.
    cosine:           of the angle between result and reference as vectors; 1 for the same direction.
    compared:         elements that are finite on both sides, or whole numbers: what the verdict rests on.
    at:               which of several sets of inputs, as "min 1x3x320x320"; "" for the only one.
    used:             share of the tolerance that the difference takes: above 1 they disagree. None where no number says it:
        nothing was compared, or nothing may differ and something does.
    beyond:           elements further off than rounding explains (trtsmith.converter.verify.noise).
    slice:            (axis, position) of the slice that is furthest beyond; () where none is.
    meaning:          of an output that a selection makes, how much of it is the same, in words; "" of others.
    unmatched:        the share of such an output, from 0 to 1, that is not the same.
    nothing:          why agreement says nothing, as "it is zero everywhere"; "" where it says something.
    """

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
    cosine: float = 1.0
    expected: float | None = None
    actual: float | None = None
    compared: int = 0
    at: str = ""
    used: float | None = None
    beyond: int = 0
    slice: tuple[int, ...] = ()
    nothing: str = ""
    meaning: str = ""
    unmatched: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether all elements are equal bit by bit."""
        return self.agrees and not self.max and not self.relative


def compare(
    expected: Arrays,
    actual: Arrays,
    tolerances: Tolerances | None = None,
    allowed: Mapping[str, float] | None = None,
    at: str = "",
    noise: Mapping[str, Noise] | None = None,
) -> tuple[Comparison, ...]:
    """Compares every expected output with the actual output of that name.

    allowed: by output, where `tolerances` says nothing of it: the ratio of norms, or the share of whole numbers that may
        differ. An output that is not there has TOLERANCE, and whole numbers have to be equal.
    noise: by output, where `tolerances` says nothing of it: what rounding does to its elements, by which each element and
        each slice is judged, beside the norm. An output that is not there is judged by its norm alone.
    """
    limits = {name: tolerances.of(name) for name in expected} if tolerances is not None else {}
    return tuple(
        _compare(
            Comparison(name, str(value.dtype), tuple(value.shape), False, "", at=at),
            value,
            actual.get(name),
            limits.get(name),
            (allowed or {}).get(name),
            (noise or {}).get(name),
        )
        for name, value in expected.items()
    )


def _compare(
    known: Comparison,
    expected: np.ndarray,
    actual: np.ndarray | None,
    limits: tuple[float, float] | None,
    allowed: float | None,
    noise: Noise | None,
) -> Comparison:
    dtype, shape = known.dtype, known.shape
    if actual is None:
        return replace(known, reason="missing")
    if tuple(actual.shape) != shape:
        return replace(known, reason=f"shape {list(actual.shape)}, expected {list(shape)}")
    if actual.dtype != expected.dtype:
        return replace(known, reason=f"dtype {actual.dtype}, expected {dtype}")
    whole = expected.dtype.kind in "iub"
    if not whole and dtype not in TOLERANCE:
        return replace(known, reason=f"dtype {dtype} cannot be compared")
    if expected.size == 0:
        return replace(known, agrees=True, reason="empty", nothing="it is empty")
    known = replace(known, nothing=_nothing(expected))
    if whole:
        return _compare_whole(known, expected, actual, allowed or 0.0)
    ratio = TOLERANCE[dtype] if allowed is None else allowed
    return _compare_floats(
        known, expected.astype(np.float64), actual.astype(np.float64), limits, ratio, noise
    )


def _nothing(expected: np.ndarray) -> str:
    """Why agreement with these values says nothing; "" where it says something."""
    finite = expected if expected.dtype.kind in "iub" else expected[np.isfinite(expected)]
    if not finite.size:
        return "it is NaN or infinite everywhere"
    if finite.size * _NEARLY < expected.size:
        return f"it is NaN or infinite in all but {finite.size} of {expected.size} elements"
    others, zero = int(np.count_nonzero(finite)), "False" if expected.dtype.kind == "b" else "zero"
    if not others:
        return f"it is {zero} everywhere"
    if others * _NEARLY < expected.size:
        return f"it is {zero} in all but {others} of {expected.size} elements"
    first = finite.flat[0]
    return f"it is {first} everywhere" if finite.size >= _SAME and bool(np.all(finite == first)) else ""


def _compare_whole(known: Comparison, expected: np.ndarray, actual: np.ndarray, share: float) -> Comparison:
    """Integers and booleans: equal, but for a share of elements that rounding may decide."""
    different = actual != expected
    count = int(np.count_nonzero(different))
    known = replace(known, compared=expected.size)
    if count == 0:
        return replace(known, agrees=True, reason="equal", used=0.0)
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    # -1 where they are equal: large integers may differ by what float64 does not hold
    measured = _with_figures(known, e, a, np.where(different, np.abs(a - e), -1.0))
    most = int(share * expected.size)
    reason = ("1 element differs" if count == 1 else f"{count} elements differ") + (
        f", allowed {most}" if most else ""
    )
    return replace(measured, agrees=count <= most, reason=reason, used=count / most if most else None)


def _compare_floats(
    known: Comparison,
    expected: np.ndarray,
    actual: np.ndarray,
    limits: tuple[float, float] | None,
    ratio: float,
    noise: Noise | None,
) -> Comparison:
    """Infinities and NaN must stand at the same places. limits: (rtol, atol); None: `ratio` and `noise` decide."""
    with np.errstate(invalid="ignore"):
        same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    finite = np.isfinite(expected) & np.isfinite(actual)
    alone = ~(same | finite)
    known = replace(known, compared=int(np.count_nonzero(finite)))
    if alone.any():
        worst = _index(int(np.argmax(alone)), known.shape)
        pair = float(expected[worst]), float(actual[worst])
        reason = f"{pair[1]} where {pair[0]} is expected"
        return replace(known, reason=reason, worst=worst, expected=pair[0], actual=pair[1])
    if not known.compared:
        return replace(known, agrees=True, reason="nothing finite")
    expected, actual = np.where(finite, expected, 0), np.where(finite, actual, 0)
    difference = np.abs(actual - expected)
    measured = _with_figures(known, expected, actual, difference)
    if limits is not None:
        allowed = limits[1] + limits[0] * np.abs(expected)
        outside = int(np.count_nonzero(difference > allowed))
        reason = f"{counted(outside, 'element')} beyond rtol {limits[0]:g}, atol {limits[1]:g}"
        return replace(measured, agrees=outside == 0, reason=reason, used=_share(difference, allowed))
    reason = f"relative error {measured.relative:.1e}, allowed {ratio:.2g}"
    used = _share(np.array(measured.relative), np.array(ratio))
    judged = replace(measured, agrees=measured.relative <= ratio, reason=reason, used=used)
    return (
        judged
        if noise is None
        else _with_excess(judged, expected, actual, excess(expected, difference, noise))
    )


def _with_excess(judged: Comparison, expected: np.ndarray, actual: np.ndarray, found: Excess) -> Comparison:
    """The comparison by the norm, and by each element and slice."""
    used = None if judged.used is None or not np.isfinite(found.used) else max(judged.used, found.used)
    if not found:
        return replace(judged, used=used)
    reasons = [] if judged.agrees else [judged.reason]
    if found.count:
        pair = float(expected[found.worst]), float(actual[found.worst])
        judged = replace(judged, worst=found.worst, expected=pair[0], actual=pair[1])
        reasons.append(
            f"{found.count} of {judged.compared} elements are further off than rounding explains, the worst at "
            f"{','.join(map(str, found.worst)) or 'its only element'}: {pair[1]:.6g}, expected {pair[0]:.6g}, allowed "
            f"{found.allowed:.2g} off"
        )
    if found.slices:
        size = judged.shape[found.axis]
        reasons.append(
            f"{found.slices} of {size} slices along axis {found.axis} are further off than rounding explains, the worst at "
            f"{found.position}: relative error {found.relative:.1e}, allowed {found.most:.2g}"
        )
    return replace(
        judged,
        agrees=False,
        reason="; ".join(reasons),
        used=used,
        beyond=found.count,
        slice=(found.axis, found.position) if found.slices else (),
    )


def _share(difference: np.ndarray, allowed: np.ndarray) -> float | None:
    """The largest share that a difference has of what is allowed; None for one where none is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = float(np.where(difference == 0, 0.0, difference / allowed).max())
    return largest if np.isfinite(largest) else None


def _with_figures(
    known: Comparison, expected: np.ndarray, actual: np.ndarray, difference: np.ndarray
) -> Comparison:
    if not difference.any():  # nothing is worst
        return known
    worst = _index(int(np.argmax(difference)), known.shape)
    difference = np.maximum(difference, 0)
    norms = float(np.linalg.norm(expected)), float(np.linalg.norm(actual))
    apart = float(np.linalg.norm(difference))
    relative = apart / norms[0] if norms[0] else (0.0 if apart == 0 else float("inf"))
    if norms[0] and norms[1]:
        cosine = float(np.vdot(expected, actual) / norms[0] / norms[1])
    else:
        cosine = 1.0 if norms[0] == norms[1] else 0.0
    return replace(
        known,
        relative=relative,
        max=float(difference.max()),
        mean=float(difference.mean()),
        p99=float(np.quantile(difference, 0.99)),
        worst=worst,
        cosine=cosine,
        expected=float(expected[worst]),
        actual=float(actual[worst]),
    )


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
