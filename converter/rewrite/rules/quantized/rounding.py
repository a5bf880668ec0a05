"""Rounds a number of quantization steps to the quantized value: half to even, plus the zero point, saturated."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES


def saturated(w: Writer, steps: Value, zero_point: Value | None, dtype: str) -> Value:
    """`steps` and `zero_point` (None for none) are float32. Whole numbers beyond 2^24 lose units, and are clipped anyway."""
    low, high = RANGES[dtype]
    whole = w.round(steps)
    if zero_point is not None:
        whole = w.Add(whole, zero_point)
    return w.Cast(w.clip(whole, low, high, "float32"), to=dtype)
