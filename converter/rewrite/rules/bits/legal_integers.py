"""In what TensorRT computes with an integer type bit by bit: int32 or int64, split into a sign and a magnitude.

TensorRT has arithmetic in int32 and int64 only. A narrower type fits into one of them, and uint64 keeps its 64 bits in
an int64. Division and remainder of negative numbers differ between runtimes (floor or truncation), so everything here
works on magnitudes, which are never negative: x = m + (x < 0 ? lowest : 0), where `lowest` weighs the sign bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trtsmith.importers.dtypes import NUMBERS


@dataclass(frozen=True)
class Carrier:
    """dtype: what the values are cast to. width: bits of the type itself. signed: whether the carrier's value may be < 0."""

    dtype: str
    width: int
    signed: bool

    @property
    def magnitude_bits(self) -> int:
        return self.width - self.signed

    @property
    def lowest(self) -> np.ndarray:
        """Weight of the sign bit; 0 for a type that has none."""
        return self.constant(-(1 << self.magnitude_bits) if self.signed else 0)

    def constant(self, value: object) -> np.ndarray:
        return np.array(value, self.dtype)

    @property
    def onnx_type(self) -> int:
        return NUMBERS[self.dtype]

    def magnitude(self, name: str) -> str:
        """Statements that define `{name}_m` and, for a signed carrier, `{name}_s` from the cast value `name`.

        They read `zero` and `lowest`. No step overflows: a negative x less the lowest value is x + 2^(width - 1).
        """
        if not self.signed:
            return f"{name}_m = Identity ({name})"
        return f"""
            {name}_s = Less ({name}, zero)
            {name}_sign = Where ({name}_s, lowest, zero)
            {name}_m = Sub ({name}, {name}_sign)
        """


CARRIERS: Mapping[str, Carrier] = {
    "int8": Carrier("int32", 8, True),
    "uint8": Carrier("int32", 8, False),
    "int16": Carrier("int32", 16, True),
    "uint16": Carrier("int32", 16, False),
    "int32": Carrier("int32", 32, True),
    "uint32": Carrier("int64", 32, False),
    "int64": Carrier("int64", 64, True),
    "uint64": Carrier("int64", 64, True),
}
