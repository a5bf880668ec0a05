"""Defines the kinds of errors that are planted in the outputs of a correct run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Plant = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray | None]
"""Output, its spread over right runs, what draws places; the output with an error, or None where it has no place for it."""


def _axis(y: np.ndarray) -> int:
    """The axis of channels or classes: the second of maps, else the last."""
    second = y.ndim > 2 and y.shape[1] > 1 and (y.ndim > 3 or y.shape[1] < y.shape[2])
    return 1 if second else y.ndim - 1


def _norms(y: np.ndarray) -> np.ndarray:
    axis = _axis(y)
    return np.asarray(np.square(y.astype(np.float64)).sum(axis=tuple(a for a in range(y.ndim) if a != axis)))


def _slice(y: np.ndarray, position: int) -> tuple[Any, ...]:
    return (slice(None),) * _axis(y) + (position,)


def _smallest(y: np.ndarray) -> int | None:
    """The slice with the smallest nonzero norm."""
    norms = _norms(y)
    return int(np.argmin(np.where(norms > 0, norms, np.inf))) if np.any(norms > 0) else None


def _scaled_slice(factor: float) -> Plant:
    def plant(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
        position = _smallest(y)
        if position is None:
            return None
        y[_slice(y, position)] *= factor
        return y

    return plant


def _swapped(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    a, b = rng.choice(y.shape[_axis(y)], 2, replace=False)
    y[_slice(y, a)], y[_slice(y, b)] = y[_slice(y, b)].copy(), y[_slice(y, a)].copy()
    return y


def _rolled(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.roll(y, 1, _axis(y))


def _row_shifted(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rows = y.reshape(-1, y.shape[-1])
    row = rng.integers(len(rows))
    rows[row] = np.roll(rows[row], 1)
    return rows.reshape(y.shape)


def _element(change: Callable[[np.ndarray, np.ndarray, int], float]) -> Plant:
    """Plants a change at a random nonzero element."""

    def plant(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
        places = np.flatnonzero(y)
        if not places.size:
            return None
        at = int(rng.choice(places))
        y.flat[at] = change(y, spread, at)
        return y

    return plant


def _entry_repeated(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    axis = next((a for a, n in enumerate(y.shape) if n > 1), None)
    if axis is None or y.shape[axis] < 2:
        return None
    first, second = ((slice(None),) * axis + (position,) for position in (0, 1))
    y[second] = y[first]
    return y


def _tile_unwritten(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y.flat[-32:] = 0
    return y


def _border(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    if y.shape[-1] < 2:
        return None
    y[..., 0] = y[..., 1]
    return y


def _patch_negated(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    patch: tuple[Any, ...] = (..., *(slice(n // 2, n // 2 + 4) for n in y.shape[-2:]))
    y[patch] *= -1
    return y


def _reversed(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.ascontiguousarray(np.flip(y, -1))


def _shifted_mean(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    position = _smallest(y)
    if position is None:
        return None
    part = y[_slice(y, position)]
    y[_slice(y, position)] += 0.05 * np.sqrt(np.mean(np.square(part)))
    return y


def _largest_lost(y: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y.flat[int(np.argmax(y))] = np.median(y)
    return y


OUTPUT_PLANTS: Mapping[str, Plant] = {
    "the smallest slice zeroed": _scaled_slice(0.0),
    "the smallest slice 10 % too large": _scaled_slice(1.1),
    "the smallest slice off by 5 % of its scale": _shifted_mean,
    "two channels swapped": _swapped,
    "channels moved by one": _rolled,
    "one row shifted by one": _row_shifted,
    "rows reversed": _reversed,
    "sign of one element": _element(lambda y, spread, at: -y.flat[at]),
    "one element off by half": _element(lambda y, spread, at: y.flat[at] / 2),
    "one element off by 10 times its spread": _element(
        lambda y, spread, at: y.flat[at] + 10 * spread.flat[at]
    ),
    "one element zero": _element(lambda y, spread, at: 0.0),
    "one element 65504": _element(lambda y, spread, at: 65504.0),
    "NaN in one place": _element(lambda y, spread, at: float("nan")),
    "the largest element lost": _largest_lost,
    "a batch entry or row repeated": _entry_repeated,
    "the last 32 elements unwritten": _tile_unwritten,
    "border wrong": _border,
    "a patch negated": _patch_negated,
}
