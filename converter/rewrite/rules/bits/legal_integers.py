"""Computes the bits of each integer type in int32 or int64, split into a sign and a magnitude.

TensorRT has arithmetic in int32 and int64 only. A narrower type fits into one of them, and uint64 keeps its 64 bits in
an int64. Division and remainder of negative numbers differ between runtimes (floor or truncation), so everything here
works on magnitudes, which are never negative: x = m + (x < 0 ? lowest : 0), where `lowest` weighs the sign bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trtsmith.converter.rewrite.engine.writer import Value, Writer


@dataclass(frozen=True)
class LegalInteger:
    """The type in which an integer type is computed. dtype: that type. width: bits of the original type. signed: whether
    values of dtype may be < 0.
    """

    dtype: str
    width: int
    signed: bool

    @property
    def magnitude_bits(self) -> int:
        return self.width - self.signed

    @property
    def lowest(self) -> np.ndarray:
        """Weight of the sign bit; 0 for types without one."""
        return self.constant(-(1 << self.magnitude_bits) if self.signed else 0)

    def constant(self, value: object) -> np.ndarray:
        return np.array(value, self.dtype)

    def magnitude(self, w: Writer, value: Value) -> tuple[Value, Value | None]:
        """Returns the magnitude of a cast value, and whether it is negative; None for unsigned types.

        No step overflows: a negative x less the lowest value is x + 2^(width - 1).
        """
        if not self.signed:
            return value, None
        zero = self.constant(0)
        negative = w.Less(value, zero)
        return w.Sub(value, w.Where(negative, self.lowest, zero)), negative


LEGAL_INTEGERS: Mapping[str, LegalInteger] = {
    "int8": LegalInteger("int32", 8, True),
    "uint8": LegalInteger("int32", 8, False),
    "int16": LegalInteger("int32", 16, True),
    "uint16": LegalInteger("int32", 16, False),
    "int32": LegalInteger("int32", 32, True),
    "uint32": LegalInteger("int64", 32, False),
    "int64": LegalInteger("int64", 64, True),
    "uint64": LegalInteger("int64", 64, True),
}
