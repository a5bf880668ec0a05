"""Rounds quantization steps to the quantized value: half to even, plus the zero point, saturated."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES


def saturated(w: Writer, steps: Value, zero_point: Value | None, dtype: str) -> Value:
    """Rounds and saturates float32 `steps` around a float32 `zero_point` or None. Integers beyond 2^24 lose precision but
    are clipped anyway.
    """
    low, high = RANGES[dtype]
    whole = w.round(steps)
    if zero_point is not None:
        whole = w.Add(whole, zero_point)
    return w.Cast(w.clip(whole, low, high, "float32"), to=dtype)
