"""Shared by the examples of row reductions: inputs, and an oracle by masks over all rows."""

from __future__ import annotations

import numpy as np

from tests.importers.foreign.model import Arrays

INDEX = np.array([2, 0, 5, 2, 2, 3, 0, 5, 2])
"""Of six segments, of which 1 and 4 have no row."""


def inputs() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(2)
    return {"source": rng.integers(-3, 4, (9, 5)).astype(np.float32), "index": INDEX.copy()}


def one_dimension() -> dict[str, np.ndarray | None]:
    return {"source": inputs()["source"][:, 0].copy(), "index": INDEX.copy()}  # type: ignore[index]


def reduced(source: np.ndarray, member: np.ndarray, how: str) -> np.ndarray:
    """[S, ...] from rows [E, ...] and a mask [S, E]."""
    wide = source.astype(np.float64)
    mask = member.reshape(*member.shape, *[1] * (source.ndim - 1))
    some = mask.any(1)
    if how in ("max", "min"):
        fill = -np.inf if how == "max" else np.inf
        return np.where(some, getattr(np, how)(np.where(mask, wide, fill), axis=1), 0)
    total = np.einsum("se,e...->s...", member.astype(np.float64), wide)
    return total / np.maximum(mask.sum(1), 1) if how == "mean" else total


def scattered(how: str, segments: int = 6, *, origin: bool = False):  # type: ignore[no-untyped-def]
    """The oracle of a node: values, and positions where it gives them."""

    def oracle(arrays: Arrays) -> np.ndarray | tuple[np.ndarray, ...]:
        source = arrays["source"]
        member = arrays["index"] == np.arange(segments)[:, None]
        values = reduced(source, member, how)
        if not origin:
            return values
        mask = member.reshape(*member.shape, *[1] * (source.ndim - 1))
        hit = mask & (source[None] == values[:, None])
        return values, np.where(hit.any(1), hit.argmax(1), len(source))

    return oracle
