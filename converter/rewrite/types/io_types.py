"""Describes inputs and outputs whose element type differs in the engine, and how to cast them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  numpy knows its types by name from here on
import numpy as np


@dataclass(frozen=True)
class IoType:
    """An input or output whose element type differs in the engine, such as "float64" and "float32".

    Whoever runs the engine casts as numpy's astype does: by value, and uint64 and int64 into each other by their bits.
    """

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        how = "cast its bits" if self.before == "uint64" else "cast it"
        return (
            f"{self.name!r} is {self.after} in the engine, {self.before} in the model: {how} where it is used"
        )


def to_engine(arrays: Mapping[str, np.ndarray], io_types: Iterable[IoType]) -> dict[str, np.ndarray]:
    """Converts arrays from the model's types to the engine's."""
    after = {io.name: np.dtype(io.after) for io in io_types}
    return _cast(arrays, after)


def to_model(arrays: Mapping[str, np.ndarray], io_types: Iterable[IoType]) -> dict[str, np.ndarray]:
    """Converts arrays from the engine's types to the model's."""
    before = {io.name: np.dtype(io.before) for io in io_types}
    return _cast(arrays, before)


def _cast(arrays: Mapping[str, np.ndarray], types: Mapping[str, np.dtype]) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):  # float64 beyond float32's range is infinite there
        return {name: np.asarray(a).astype(types[name]) if name in types else a for name, a in arrays.items()}
