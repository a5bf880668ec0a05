"""Draws arrays of a described kind from a seeded generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np

from trtsmith.converter.verify.input_generation.meaning import InputValues, ValueKind
from trtsmith.converter.verify.input_generation.pictures import channel_axis, cut_outs

_OFF = -10000.0
"""What a mask adds to the scores of keys that do not count: every float type holds it, and exp() of it is 0."""

_ANY_INTEGER = 10
"""The bound of whole numbers of unknown meaning."""

Shape = tuple[int, ...]


def draw(rng: np.random.Generator, dtype: str, shape: Shape, meaning: InputValues | None) -> np.ndarray:
    """Draws values of the type and shape. Without a meaning: normal ones of both signs, integers from 0 to 9, both
    booleans.
    """
    kind = np.dtype(dtype)
    if meaning is None:
        if kind.kind in "iub":
            return rng.integers(0, 2 if kind.kind == "b" else _ANY_INTEGER, shape).astype(kind)
        return _both_signs(rng.standard_normal(shape)).astype(kind)
    values = _DRAWN[meaning.kind](rng, shape, meaning)
    if kind.kind in "iu" and values.dtype.kind == "f":
        limits = np.iinfo(kind)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return np.asarray(values).astype(kind)


def _both_signs(values: np.ndarray) -> np.ndarray:
    """Few numbers may all be negative, and a Relu would leave zeros, which prove nothing: then each second is positive."""
    if values.size < 2 or not (values < 0).all():
        return values
    values.flat[1::2] *= -1
    return values


def _range(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    return rng.uniform(meaning.low, meaning.high, shape)


def _photographs(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    if channel_axis(shape) is None:
        return _range(rng, shape, meaning)
    return np.asarray(meaning.low + (meaning.high - meaning.low) * cut_outs(rng, shape))


def _whole(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    return rng.integers(math.floor(meaning.low), math.floor(meaning.high), shape, endpoint=True)


def _apart(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    signs = rng.choice([-1.0, 1.0], shape)
    return np.asarray(rng.uniform(meaning.low, meaning.high, shape) * signs)


def _invertible(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    """A dominant diagonal bounds the condition number, so that rounding does not decide the inverse."""
    if len(shape) < 2:
        return rng.uniform(1, 2, shape)
    n = shape[-1]
    noise = rng.standard_normal(shape) * (0.25 / max(n, 1) ** 0.5)
    return np.asarray(noise + np.eye(shape[-2], n) * rng.uniform(1, 2, (*shape[:-2], 1, 1)))


def _weights(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    weights = np.exp(rng.standard_normal(shape))
    axes = tuple(range(max(0, len(shape) - 2), len(shape)))
    total = weights.sum(axis=axes, keepdims=True) if axes else weights
    return np.asarray(weights / np.where(total == 0, 1, total))


def _counting(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """True for the first elements of each row: at least half of them, not all. A causal mask leaves the first one too."""
    n = shape[-1] if shape else 1
    lengths = rng.integers(math.ceil(n / 2), max(n, 2), (*shape[:-1], 1))
    return np.asarray((np.arange(n) < lengths).reshape(shape))


def _mask(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    return np.asarray(_counting(rng, shape) == bool(meaning.counts))


def _added_mask(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    return np.where(_counting(rng, shape), 0.0, _OFF)


_REGION = 5
"""Numbers of a region: the index of its image, for which the first does, and the corners of its box."""


def _fours(shape: Shape) -> int | None:
    """The axis that holds a box's four numbers; None where none does."""
    return next((axis for axis in (len(shape) - 1, len(shape) - 2) if axis >= 0 and shape[axis] == 4), None)


def _corners(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    if shape[-1:] == (_REGION,):
        first = np.zeros((*shape[:-1], 1))
        return np.concatenate([first, _corners(rng, (*shape[:-1], 4), meaning)], -1)
    axis = _fours(shape)
    if axis is None:
        return rng.uniform(0, meaning.high, shape)
    centre, size = _centres_and_sizes(rng, shape, axis, meaning.high)
    return np.concatenate([centre - size / 2, centre + size / 2], axis)


def _centres(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    axis = _fours(shape)
    if axis is None:
        return rng.uniform(0, meaning.high, shape)
    return np.concatenate(_centres_and_sizes(rng, shape, axis, meaning.high), axis)


def _centres_and_sizes(
    rng: np.random.Generator, shape: Shape, axis: int, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """A tenth to a half of the image wide and high, and inside of it: many overlap, as detectors' boxes do."""
    half = (*shape[:axis], 2, *shape[axis + 1 :])
    size = rng.uniform(0.1, 0.5, half)
    return rng.uniform(size / 2, 1 - size / 2) * high, size * high


def _index(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    if meaning.bounds:
        return _index_tuples(rng, shape, meaning)
    low, high = math.floor(meaning.low), math.floor(meaning.high)
    axis = meaning.distinct
    if axis is None or not shape or shape[axis] > high - low + 1:
        return _whole(rng, shape, meaning)
    axis %= len(shape)
    lines = (*shape[:axis], *shape[axis + 1 :])
    drawn = np.empty((math.prod(lines), shape[axis]), np.int64)
    for line in drawn:
        line[:] = rng.choice(high - low + 1, shape[axis], replace=False) + low
    return np.moveaxis(drawn.reshape(*lines, shape[axis]), -1, axis)


def _index_tuples(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    places, count = math.prod(meaning.bounds), math.prod(shape[:-1])
    if meaning.distinct is None or count > places:
        flat = rng.integers(0, max(places, 1), count)
    else:
        flat = rng.choice(places, count, replace=False)
    return np.stack(np.unravel_index(flat, meaning.bounds), axis=-1).reshape(shape)


def _level_sizes(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    return np.array(levels(meaning.bounds[0], shape[0]), np.int64).reshape(shape)


def _level_starts(rng: np.random.Generator, shape: Shape, meaning: InputValues) -> np.ndarray:
    sizes = [height * width for height, width in levels(meaning.bounds[0], shape[0])]
    return np.cumsum([0, *sizes[:-1]], dtype=np.int64).reshape(shape)


def levels(rows: int, count: int) -> list[tuple[int, int]]:
    """Divides `rows` rows into `count` levels (height, width): squares that shrink, the last one takes the rest."""
    sizes = []
    left = rows
    for level in range(count - 1, -1, -1):
        side = math.isqrt(max((left - level) * 3 // 4, 1)) if left > level else 0
        size = (side, side) if level else (1, left)
        sizes.append(size)
        left -= size[0] * size[1]
    return sizes


_DRAWN: Mapping[ValueKind, Callable[[np.random.Generator, Shape, InputValues], np.ndarray]] = {
    ValueKind.PIXELS: _range,
    ValueKind.PICTURES: _photographs,
    ValueKind.RANGE: _range,
    ValueKind.APART_FROM_ZERO: _apart,
    ValueKind.INVERTIBLE: _invertible,
    ValueKind.WEIGHTS: _weights,
    ValueKind.ADDED_MASK: _added_mask,
    ValueKind.MASK: _mask,
    ValueKind.CENTRES: _centres,
    ValueKind.CORNERS: _corners,
    ValueKind.INDEX: _index,
    ValueKind.LEVEL_SIZES: _level_sizes,
    ValueKind.LEVEL_STARTS: _level_starts,
}
