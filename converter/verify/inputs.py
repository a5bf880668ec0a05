"""Inputs that nobody gave: made up from a fixed seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.shapes import InputSpec, ShapeRange
from importers.problem import Problem

SEED = 20240229
"""Of generated inputs: two runs see the same numbers."""


def generate_inputs(
    specs: Sequence[InputSpec], profile: Mapping[str, ShapeRange], bounds: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Seeded inputs at the profile's usual shapes: standard normal floats, integers 0 to 9, both booleans.

    bounds: by input, an integer that its integers have to stay below.
    UsageError for a shape that this machine's memory does not hold.
    """
    rng = np.random.default_rng(SEED)
    feeds = {}
    for spec in specs:
        shape = profile[spec.name].opt if spec.name in profile else tuple(d or 0 for d in spec.shape)
        try:
            feeds[spec.name] = _generate(rng, np.dtype(spec.dtype), shape, (bounds or {}).get(spec.name, 10))
        except (MemoryError, ValueError, OverflowError) as error:
            raise UsageError(
                Problem(
                    f"input {spec.name!r} is too large to be generated: {error}",
                    f"input {spec.name!r}, {'x'.join(map(str, shape))}",
                    "a usual shape of which this machine can hold the numbers",
                    "give a smaller usual shape with --shapes, or --no-verify",
                )
            ) from error
    return feeds


def _generate(
    rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], bound: int
) -> np.ndarray:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, min(bound, 10), shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
