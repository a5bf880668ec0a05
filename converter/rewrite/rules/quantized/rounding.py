"""Rounds a number of quantization steps to the quantized value: half to even, plus the zero point, saturated."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES


def saturated(w: Writer, steps: str, zero_point: str, dtype: str, result: str) -> str:
    """`steps` and `zero_point` ("" for none) are float32. Whole numbers beyond 2^24 lose units, and are clipped anyway."""
    low, high = RANGES[dtype]
    whole = w.round_(steps)
    if zero_point:
        whole = w.do("Add", whole, zero_point)
    return w.cast(w.clip(whole, low, high, "float32"), dtype, result)
