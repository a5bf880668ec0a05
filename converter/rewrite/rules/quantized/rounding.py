"""From a real number of quantisation steps to the quantised value: round half to even, add the zero point, saturate."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.opset_forms import clip, round_
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.converter.rewrite.rules.quantized.lines import Lines
from trtsmith.importers.dtypes import NUMBERS


def saturated(lines: Lines, steps: str, zero_point: str, dtype: str, result: str) -> str:
    """`steps` and `zero_point` ("" for none) are float32. Whole numbers beyond 2^24 lose units, and are clipped anyway."""
    opset = lines.node.opset
    low, high = RANGES[dtype]
    lines.add(round_(f"{result}_rounded", steps, opset))
    whole = f"{result}_rounded"
    if zero_point:
        whole = lines.op(f"{result}_shifted", "Add", whole, zero_point)
    lines.add(clip(f"{result}_clipped", whole, low, high, opset, "float"))
    return lines.cast(result, f"{result}_clipped", NUMBERS[dtype])
