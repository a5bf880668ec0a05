"""Judges classes, rankings and sets by their scores: ties within rounding may go either way."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.verify.meaning.selections import Selection


@dataclass(frozen=True)
class Scores:
    """The reference's scores, and the possible change of each by rounding."""

    values: np.ndarray
    bound: np.ndarray


@dataclass(frozen=True)
class Aligned:
    """An output prepared for comparison by element: parts that rounding explains are set to the expected values.

    told: how much is the same, in words. wrong: what rounding does not explain; "" where it explains everything.
    matched, of: how many of how many are the same.
    """

    array: np.ndarray
    told: str = ""
    wrong: str = ""
    matched: int = 0
    of: int = 0

    @property
    def apart(self) -> int:
        """The number of elements that differ."""
        return self.of - self.matched

    @property
    def few(self) -> bool:
        """Whether so few match that agreement proves nothing."""
        return self.matched < _HALF * self.of


_HALF = 0.5
"""The least share of rows or positions that has to match: where fewer do, agreement proves nothing."""


def decided(one: Selection, expected: np.ndarray, actual: np.ndarray, scores: Scores | None) -> Aligned:
    """Aligns indices into scores: classes, or places of the best. Shapes are equal."""
    different = expected != actual
    count, size = int(np.count_nonzero(different)), int(expected.size)
    noun = "classes" if one.kind == "classes" else "places of the ranking"
    told = f"{size - count} of {size} {noun} agree"
    if not count:
        return Aligned(actual, told, "", size, size)
    lines = None if scores is None else _lines(one, expected, actual, scores)
    if lines is None:
        return Aligned(actual, told, "", size - count, size)
    want, have, values, bound = lines
    inside = (have >= 0) & (have < values.shape[1])
    place = np.where(inside, have, 0)
    row = np.arange(len(want))[:, None]
    with np.errstate(invalid="ignore"):  # infinite scores
        margin = np.abs(values[row, want] - values[row, place])
    most = bound[row, want] + bound[row, place]
    ties = inside & (np.nan_to_num(margin, nan=0.0) <= most)
    if one.kind == "ranking":  # no element may be chosen twice
        ordered = np.sort(have, axis=1)
        ties &= ~(ordered[:, 1:] == ordered[:, :-1]).any(axis=1, keepdims=True)
    off = want != have
    wrong = off & ~ties
    if not wrong.any():
        told += (
            f", the other {count} are ties within rounding: margins of at most {float(margin[off].max()):.1e}"
        )
        return Aligned(expected.copy(), told, "", size - count, size)
    at = np.unravel_index(int(np.argmax(np.where(wrong, margin / np.maximum(most, 1e-300), -1.0))), off.shape)
    what = (
        f"{int(np.count_nonzero(wrong))} of {size} {noun} differ by more than rounding explains, as {have[at]}, expected "
        f"{want[at]}, whose scores are {float(margin[at]):.2g} apart, allowed {float(most[at]):.2g}"
    )
    return Aligned(actual, told, what, size - count, size)


def _lines(
    one: Selection, expected: np.ndarray, actual: np.ndarray, scores: Scores
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Indices on both sides, scores and bounds as [lines, ...]; None where they do not fit."""
    rank = scores.values.ndim
    if not -rank <= one.axis < rank or not scores.values.size:
        return None
    values, bound = (np.moveaxis(a, one.axis, -1) for a in (scores.values, scores.bound))
    if one.kind == "ranking" and expected.ndim == rank:
        expected, actual = (np.moveaxis(a, one.axis, -1) for a in (expected, actual))
    lines = values.size // values.shape[-1]
    if expected.size % lines:
        return None
    want, have = (np.ascontiguousarray(a).reshape(lines, -1).astype(np.int64) for a in (expected, actual))
    if want.min() < 0 or want.max() >= values.shape[-1]:
        return None
    return want, have, values.reshape(lines, -1), bound.reshape(lines, -1)


def in_both(
    one: Selection, expected: np.ndarray, actual: np.ndarray, scores: Scores | None, against: Scores | None
) -> Aligned:
    """Aligns positions, or other elements, whose order means nothing; one that a single side has needs a score at
    the limit.
    """
    rank = scores.values.ndim if scores is not None else 0
    wants, has = (_members(a, rank) for a in (expected, actual))
    apart = sorted(wants ^ has)
    size = len(wants | has)
    told = f"{size - len(apart)} of {size} positions are in both"
    if not apart:
        return Aligned(expected.copy(), told, "", size, size)
    if scores is not None and expected.ndim == 2 and all(len(p) == rank for p in apart):
        limit = against or Scores(np.array(one.limits[0] if one.limits else 0.0), np.zeros(()))
        beyond = _beyond(limit, scores, apart)
        if not beyond:
            told += f", {len(apart)} only in one, at the limit within rounding"
            return Aligned(expected.copy(), told, "", size - len(apart), size)
        apart = beyond
    first = ",".join(map(str, apart[0]))
    side = "is expected" if apart[0] in wants else "is not expected"
    what = f"{told}; {len(apart)} are only in one, and rounding does not explain it: {first} {side}"
    return Aligned(actual, told, what, size - len(apart), size)


def _beyond(limit: Scores, scores: Scores, positions: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The positions whose score rounding does not bring to the limit; all of them where one does not exist."""
    shape = scores.values.shape
    if not all(0 <= i < n for position in positions for i, n in zip(position, shape, strict=True)):
        return positions
    arrays = [np.broadcast_to(a, shape) for a in (scores.values, limit.values, scores.bound, limit.bound)]
    value, other, bound, more = (a[tuple(np.transpose(positions))].astype(np.float64) for a in arrays)
    beyond = np.abs(value - other) > bound + more
    return [position for position, is_beyond in zip(positions, beyond, strict=True) if is_beyond]


def _members(array: np.ndarray, rank: int) -> set[tuple[float, ...]]:
    """The positions, one a column as ONNX has them or one a row as PyTorch does; or the elements."""
    if array.ndim == 2 and rank and array.shape[0] == rank and array.shape[1] != rank:
        array = array.T
    elif array.ndim == 2 and rank and array.shape[0] == rank == array.shape[1]:
        array = array.T if bool((np.diff(array[0]) >= 0).all()) else array
    return (
        set(map(tuple, array.reshape(len(array), math.prod(array.shape[1:])).tolist()))
        if array.ndim
        else {(array.item(),)}
    )
