"""Lists the precisions of a network and the range of their numbers."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto as T


@dataclass(frozen=True)
class Format:
    """A reduced floating-point type.

    flag:    as --precision names it. name: as numpy and ml_dtypes do. elem: onnx.TensorProto.DataType.
    largest: largest finite value. normal: smallest normal one; below it digits are lost. smallest: smallest above zero.
    digits:  bits of the significand, the hidden one among them: values are rounded by up to 2**-digits of themselves.
    """

    flag: str
    name: str
    elem: int
    largest: float
    normal: float
    smallest: float
    digits: int

    @property
    def masked(self) -> float:
        """Replacement for a mask's lowest number, -3.4e38 in float32: three quarters of the type's lowest.

        Scores that are added to it do not make it infinite, and those below 16 do not change it: a row that is masked whole
        stays the mean of all.
        """
        return -0.75 * self.largest


FP16 = Format("fp16", "float16", T.FLOAT16, 65504.0, 2.0**-14, 2.0**-24, 11)
BF16 = Format("bf16", "bfloat16", T.BFLOAT16, 2.0**127 * (2 - 2.0**-7), 2.0**-126, 2.0**-133, 8)
FORMATS = {fmt.flag: fmt for fmt in (FP16, BF16)}
