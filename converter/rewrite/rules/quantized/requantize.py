"""Writes the steps after an exact sum of integer products: bias, scale, and rounding to the output's type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES
from trtsmith.converter.rewrite.rules.quantized.exact_products import EXACT, Sum
from trtsmith.converter.rewrite.rules.quantized.rounding import saturated


def with_bias(w: Writer, total: Sum, index: int, bias: Value) -> Sum:
    """Returns the sum plus int32 `bias` (input `index`), in float32 if all results fit exactly, else in int32."""
    constant = w.node.constant(index)
    room = None if total.bound is None or constant is None else EXACT - total.bound
    if room is not None and constant is not None and np.abs(constant.astype(np.int64)).max(initial=0) <= room:
        return replace(total, value=w.Add(total.value, w.Cast(bias, to="float32")))
    return replace(total, value=w.Add(total.as_int32(w), bias), bound=None)


def as_float(w: Writer, total: Sum) -> Value:
    return total.value if total.bound is not None else w.Cast(total.value, to="float32")


def requantized(
    w: Writer,
    total: Sum,
    scale: Value,
    zero_point: int,
    otherwise: str | None,
    what: str,
    zero: Value | None = None,
) -> Replacement | Refusal:
    """Replaces the node by `total` * `scale`, quantized around input `zero_point`, or to type `otherwise` without one."""
    node = w.node
    target = node.dtype(zero_point) if node.input(zero_point) else otherwise
    if target is None or target not in RANGES:
        return Refusal(
            f"it quantizes to {target or 'a type that is not known'}",
            "int8 or uint8",
            "give the node a zero point of a known type",
        )
    steps = w.Mul(as_float(w, total), scale)
    point = None
    if node.input(zero_point):
        point = w.Cast(w.x[zero_point], to="float32") if zero is None else zero
    return Replacement(w.finish(saturated(w, steps, point, target)), what, numerics=total.numerics)
