"""Rewrites QuantizeLinear as float32 arithmetic where TensorRT refuses it or computes in another type.

https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html: saturate(round_half_to_even(x / y_scale) + y_zero_point), the
division in the scale's type or in `precision`. To the low floats there is no rounding to integers: a saturating Cast.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import (
    LOW_FLOATS,
    RANGES,
    all_equal,
    quantized_type,
)
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity, granularity, spread
from trtsmith.converter.rewrite.rules.quantized.native_types import is_native, may_be_native
from trtsmith.converter.rewrite.rules.quantized.rounding import saturated
from trtsmith.importers.dtypes import NUMBERS, dtype_name

_DIVIDES = ("float32", "float16", "bfloat16")


@node_rule("quantize", "QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize_linear_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites QuantizeLinear of unsupported types, zero points or blocks as float32 arithmetic."""
    target = quantized_type(node)
    grain = granularity(node)
    if isinstance(grain, Refusal):
        return None if may_be_native(node, target) else grain
    if is_native(node, target, grain) and node.dtype(0) in (*_DIVIDES, None):
        return None
    if target is None or target not in (*RANGES, *LOW_FLOATS):
        return Refusal(
            f"it quantizes to {target or 'a type that is not known'}",
            "one of " + ", ".join((*RANGES, *sorted(LOW_FLOATS))),
            "give the node a zero point of one of these types",
        )
    numerics = ""
    if node.dtype(0) == "int32" and "float32" in (_precision(node), "float32"):
        numerics = "its int32 input is divided in float32, as in onnxruntime: exact up to 2^24"
    w = Writer(node)
    return Replacement(
        w.finish(_arithmetic(w, grain, target)),
        f"quantized to {target} by arithmetic in float32",
        numerics=numerics,
    )


def _precision(node: NodeView) -> str:
    """The type of the division; float32 if ONNX names an integer type."""
    number = int(node.attributes.get("precision") or 0)
    dtype = dtype_name(number) if number else node.dtype(1)
    return dtype if dtype in _DIVIDES else "float32"


def _arithmetic(w: Writer, grain: Granularity, target: str) -> Value:
    node = w.node
    precision = _precision(node)
    data = w.x[0] if node.dtype(0) == precision else w.Cast(w.x[0], to=precision)
    steps = w.Div(data, spread(w, grain, 1, precision))
    zero_point = None
    if node.input(2) and target in (*RANGES, "float4_e2m1fn") and not all_equal(node.constant(2), 0):
        zero_point = spread(w, grain, 2)
    if target in RANGES:
        if precision != "float32":
            steps = w.Cast(steps, to="float32")  # a zero point of uint16 has no place in float16
        return saturated(w, steps, zero_point, target)
    if zero_point is not None:
        steps = w.Add(w.Cast(steps, to="float32"), zero_point)
    saturate = int(node.attributes.get("saturate", 1))
    return w.Cast(steps, saturate=saturate, to=NUMBERS[target])
