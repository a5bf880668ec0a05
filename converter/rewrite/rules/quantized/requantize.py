"""What follows an exact sum of integer products: the bias, the scale, and the rounding to the output's type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Refusal, Replacement
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.converter.rewrite.rules.quantized.exact_products import EXACT, Sum
from trtsmith.converter.rewrite.rules.quantized.lines import FLOAT, Lines
from trtsmith.converter.rewrite.rules.quantized.rounding import saturated


def with_bias(lines: Lines, total: Sum, index: int, bias: str) -> Sum:
    """The sum plus int32 `bias`, input `index`: in float32 if that holds what may come out, else in int32."""
    constant = lines.node.constant(index)
    room = None if total.bound is None or constant is None else EXACT - total.bound
    if room is not None and constant is not None and np.abs(constant.astype(np.int64)).max(initial=0) <= room:
        return replace(
            total, name=lines.op("biased", "Add", total.name, lines.cast("bias_float", bias, FLOAT))
        )
    return replace(total, name=lines.op("biased", "Add", total.as_int32(lines, "sum_int"), bias), bound=None)


def as_float(lines: Lines, total: Sum) -> str:
    return total.name if total.bound is not None else lines.cast("sum_float", total.name, FLOAT)


def requantised(
    lines: Lines, total: Sum, scale: str, zero_point: int, otherwise: str | None, what: str, zero: str = ""
) -> Replacement | Refusal:
    """The node replaced by `total` * `scale`, quantised around input `zero_point`; of type `otherwise` without one."""
    node = lines.node
    target = node.dtype(zero_point) if node.input(zero_point) else otherwise
    if target is None or target not in RANGES:
        return Refusal(
            f"it quantises to {target or 'a type that is not known'}",
            "int8 or uint8",
            "give the node a zero point of a known type",
        )
    steps = lines.op("steps", "Mul", as_float(lines, total), scale)
    point = ""
    if node.input(zero_point):
        point = zero or lines.cast("y_zero", f"x{zero_point}", FLOAT)
    saturated(lines, steps, point, target, "y0")
    return Replacement(lines.nodes(), what, numerics=total.numerics)
