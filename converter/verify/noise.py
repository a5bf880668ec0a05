"""Sets tolerances for each element and each slice of an output from the measured effect of rounding.

A ratio of norms sees the large elements of an output alone. What rounding changes is measured for each element, once; the
engine makes other errors of the same size. The size at an element is taken to be the root mean square over the slice (the
channel, class or row) in which it is smallest: of the changes, and of the changes in proportion to the values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

SIGMAS = 12.0
"""How far off an element may be, in root mean squares of the noise around it. Of 10^7 normal errors the largest is 5.4, and
noise is not the same everywhere in a slice: benchmarks/judge.json has what right runs take of their bounds."""

OWN = 2.0
"""The same in multiples of what rounding was seen to change at the element itself."""

UNITS = 8.0
"""The same in roundings of the element's scale, where nothing was measured: an engine rounds where onnxruntime does not."""

UNITS_BESIDE = 3.0
"""The same where rounding was measured, and changes less than that at the element."""

SLICE_FACTOR = 2.0
"""How far off a slice may be, in what rounding changes of it or of slices like it (flash-attention's rule)."""

SLICE_UNITS = 4.0
"""The same in roundings of its own scale, in any case."""

CHANCE = 3.0
"""By how much more a slice of n elements may be off, in proportion, over the square root of n."""

LEAST = 16
"""Elements from which on the mean square of a slice tells of each of them."""

QUIET = 0.25
"""Slices with less than this of the noise of the noisiest one along their axis do not dilute it: the past of a cache of keys
is copied, and rounded once at most; the new key is computed."""


@dataclass(frozen=True, eq=False)
class Noise:
    """The measured effect of rounding on an output.

    unit:   unit roundoff of the precision that the engine computes in.
    quantum: what any element may be off by, however small it is.
    change: what rounding to it changes of each element, as measured; None where it was not.
    """

    unit: float
    quantum: float = 0.0
    change: np.ndarray | None = None

    def times(self, factor: float) -> Noise:
        """Widens the bounds by the factor."""
        change = None if self.change is None else self.change * factor
        return Noise(self.unit * factor, self.quantum * factor, change)

    def anywhere(self, value: np.ndarray) -> Noise:
        """Returns bounds for changes that chance places anywhere, as where rounding flips steps.

        An element of `value` may change by as much of its slice's root mean square as any does in the other slices of an
        axis, by the axis that allows least: columns of another scale lend it nothing.
        """
        if self.change is None or not value.size:
            return self
        bounds = [np.full(value.shape, np.inf)]
        for axis in (axis for axis, size in enumerate(value.shape) if 1 < size < value.size):
            others = tuple(other for other in range(value.ndim) if other != axis)
            scale = np.sqrt(np.nanmean(np.square(value, dtype=np.float64), axis=others, keepdims=True))
            most = np.nanmax(self.change, axis=others, keepdims=True)
            share = np.divide(most, scale, out=np.zeros_like(scale), where=scale > 0)
            bounds.append(np.broadcast_to(np.max(share) * scale, value.shape))
        least = np.minimum.reduce(bounds) if len(bounds) > 1 else np.max(self.change)
        return replace(self, change=np.maximum(self.change, least).astype(np.float32))


@dataclass(frozen=True)
class Excess:
    """The part of a difference beyond its bound.

    used:  the largest share that an error has of its bound; above 1 it is beyond.
    count: how many elements are beyond their bounds. worst: the one that is furthest, as an index.
    allowed: what that one may be off by.
    axis, position: the slice that is furthest beyond its bound, -1 where none is. slices: how many of its axis are.
    relative, most: ratio of the norms of error and reference in that slice, and what is allowed.
    """

    used: float = 0.0
    count: int = 0
    worst: tuple[int, ...] = ()
    allowed: float = 0.0
    axis: int = -1
    position: int = -1
    slices: int = 0
    relative: float = 0.0
    most: float = 0.0

    def __bool__(self) -> bool:
        """Whether anything is beyond its bound."""
        return bool(self.count or self.slices)


def excess(expected: np.ndarray, difference: np.ndarray, noise: Noise) -> Excess:
    """Finds what of an output is beyond its bounds. Arrays: float64, finite, of at least one element.

    difference: of result and reference, its absolute value.
    """
    if not expected.ndim:  # numpy makes numbers of arrays without axes, and these cannot be written to
        change = None if noise.change is None else noise.change.reshape(1)
        found = excess(expected.reshape(1), difference.reshape(1), replace(noise, change=change))
        return replace(found, worst=())
    output = ScaledOutput(expected, noise)
    with np.errstate(over="ignore"):
        off = (difference / output.top).astype(np.float32)
        return _with_slices(output, off, _elements(output, off))


class ScaledOutput:
    """The scales that bounds rest on, relative to the largest value. Mean squares leave out elements that are always
    zero.
    """

    def __init__(self, expected: np.ndarray, noise: Noise) -> None:
        magnitudes = np.abs(expected)
        self.top = float(magnitudes.max()) or 1.0
        self.quantum = noise.quantum / self.top
        self.noise, self.size = noise, (magnitudes / self.top).astype(np.float32)
        known = noise.change is not None and noise.change.shape == expected.shape
        with np.errstate(over="ignore"):
            self.changed = _finite(noise.change / self.top) if noise.change is not None and known else None
        self.squares = np.square(self.size)
        self.changes = None if self.changed is None else np.square(self.changed)
        active = self.squares > 0
        if self.changes is not None:
            active |= self.changes > 0
        self.active = active.astype(np.float32)
        shape = self.size.shape
        self.axes = [a for a, n in enumerate(shape) if n > 1 and self.size.size // n >= LEAST]

    def least(self, squares: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """Returns at each element the smallest root mean square of the slices through it, or of the whole.

        counted: 1 for elements that mean squares are over, else 0.
        """
        total = np.sum(squares * counted, dtype=np.float64)
        whole = total / max(float(counted.sum(dtype=np.float64)), 1.0)
        found = np.full(squares.shape, whole, np.float32)
        for axis in self.axes:
            np.minimum(found, self._means(squares, counted, axis), out=found)
        return np.sqrt(found, out=found)

    def least_noise(self, squares: np.ndarray) -> np.ndarray:
        """Returns `least` of changes. Noisy slices count alone, along the axis where they stand out most."""
        found, noisy, contrast = self.least(squares, self.active), self.active, 1.0
        for axis in self.axes:
            means = self._means(squares, self.active, axis)
            known = means[np.isfinite(means)]
            most = float(known.max(initial=0.0))
            if known.size and most > contrast * float(known.mean()):
                contrast, noisy = most / float(known.mean()), self.active * (means >= QUIET**2 * most)
        least: np.ndarray = np.where(noisy > 0, self.least(squares, noisy), found)
        return least

    def _means(self, squares: np.ndarray, counted: np.ndarray, axis: int) -> np.ndarray:
        """Of each slice along the axis; infinite where too few of its elements count."""
        counts = along(counted, axis)
        means = along(squares * counted, axis) / np.maximum(counts, 1)
        known: np.ndarray = np.where(counts >= LEAST, means, np.float32(np.inf))
        return known

    def typical(self) -> float:
        """Returns the change in the middle slice, relative to its scale, along the axis where this is largest.

        A slice of which rounding happened to change next to nothing is held to this.
        """
        most = 0.0
        if self.changes is None:
            return most
        for axis in self.axes:
            scales, changes = along(self.squares, axis).ravel(), along(self.changes, axis).ravel()
            there = scales > 0
            if np.count_nonzero(there) > 1:
                most = max(most, float(np.median(changes[there] / scales[there])))
        return float(np.sqrt(most))


def along(array: np.ndarray, axis: int) -> np.ndarray:
    """Sums each slice along an axis, and keeps the number of axes."""
    return np.asarray(array.sum(axis=tuple(a for a in range(array.ndim) if a != axis), keepdims=True))


def _finite(change: np.ndarray) -> np.ndarray:
    """Where rounding makes an infinity, nothing is known."""
    return np.asarray(np.where(np.isfinite(change), np.abs(change), 0), np.float32)


def bounds(output: ScaledOutput) -> tuple[np.ndarray, int, float]:
    """Computes each element's bound, how many elements measured rounding changes by more, and the largest such change."""
    scale = np.maximum(output.least(output.squares, output.active), output.size)
    changed = output.changed
    units = UNITS if changed is None or not changed.any() else UNITS_BESIDE
    bound = np.maximum(scale * np.float32(units * output.noise.unit), np.float32(output.quantum))
    if changed is None or output.changes is None:
        return bound, 0, 0.0
    few = np.float32(SIGMAS * (1 + CHANCE / np.sqrt(changed.size)))
    np.maximum(bound, few * output.least_noise(output.changes), out=bound)
    relative = np.divide(changed, scale, out=np.zeros_like(changed), where=scale > 0)
    np.maximum(bound, few * output.least_noise(np.square(relative, out=relative)) * scale, out=bound)
    beyond = changed > bound
    outliers, largest = int(np.count_nonzero(beyond)), float(changed[beyond].max(initial=0.0))
    return np.maximum(bound, np.float32(OWN) * changed, out=bound), outliers, largest


def _elements(output: ScaledOutput, off: np.ndarray) -> Excess:
    bound, outliers, largest = bounds(output)
    wrong = off > bound
    count = int(np.count_nonzero(wrong))
    # where rounding takes a step the other way at some elements, it may do so in the engine at as many others
    if count and count <= OWN * outliers and float(off[wrong].max()) <= OWN * largest:
        return Excess(used=1.0)
    share = np.divide(off, bound, out=np.where(off > 0, np.float32(np.inf), np.float32(0)), where=bound > 0)
    worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(share)), share.shape))
    return Excess(float(share[worst]), count, worst, float(bound[worst]) * output.top)


def _with_slices(output: ScaledOutput, off: np.ndarray, found: Excess) -> Excess:
    errors, typical = np.square(off), output.typical()
    for axis in output.axes:
        scales, error = (np.sqrt(along(squares, axis).ravel()) for squares in (output.squares, errors))
        count = off.size / scales.size
        most = SLICE_UNITS * output.noise.unit * scales + output.quantum * np.sqrt(count)
        if output.changes is not None:
            change = along(output.changes, axis).ravel()
            fourth = along(np.square(output.changes), axis).ravel()
            # noise that few elements hold is as uncertain as that of a slice of so many elements
            spread = np.divide(np.square(change), fourth, out=np.ones_like(change), where=fourth > 0)
            factor = SLICE_FACTOR * (1 + CHANCE / np.sqrt(spread))
            most = np.maximum(most, factor * np.maximum(np.sqrt(change), typical * scales))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(error > 0, error / most, 0.0)
            at, slices = int(np.argmax(share)), int(np.count_nonzero(share > 1))
            if slices and (not found.slices or share[at] > found.used):
                relative, allowed = float(error[at] / scales[at]), float(most[at] / scales[at])
                found = replace(found, axis=axis, position=at, slices=slices, relative=relative, most=allowed)
        found = replace(found, used=max(found.used, float(share[at])))
    return found
