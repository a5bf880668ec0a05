"""Clouds of points for the examples, and distances as the public kernels compute them."""

from __future__ import annotations

import numpy as np

FAR = 50.0
"""No point is near a place so far away."""


def points(*shape: int) -> np.ndarray:
    """Points of a lattice, the same for each shape: many distances are equal, and all are exact in half precision."""
    return (np.random.default_rng([29, *shape]).integers(-8, 9, shape) / 4).astype(np.float32)


def square(a: np.ndarray, b: np.ndarray) -> np.float32:
    return np.float32(sum((np.float32(x) - np.float32(y)) ** 2 for x, y in zip(a, b, strict=True)))


def near(cloud: np.ndarray, places: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """An insertion into a sorted list that only nearer points go before, as the kernels have: distances, and numbers."""
    least = np.full((*places.shape[:2], k), np.inf)
    index = np.zeros((*places.shape[:2], k), np.int64)
    for b, m in np.ndindex(*places.shape[:2]):
        for number, point in enumerate(cloud[b]):
            distance = square(places[b, m], point)
            at = next((place for place in range(k) if distance < least[b, m, place]), k)
            least[b, m] = [*least[b, m, :at], distance, *least[b, m, at:]][:k]
            index[b, m] = [*index[b, m, :at], number, *index[b, m, at:]][:k]
    return np.sqrt(least), index
