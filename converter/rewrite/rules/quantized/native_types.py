"""Recognises QuantizeLinear and DequantizeLinear nodes that TensorRT computes exactly as ONNX does.

TensorRT-RTX 1.7.1 wants zero points of zero (not computed), positive scales (but for what is dequantized from int4),
whole blocks, an even number of 4-bit values; and where a scale for each index of an axis is computed, a fixed length of
it. It takes uint8 with a zero point of zero too, and computes it in int8, with no more than a warning: all that is above
127 is lost. So uint8 is never left to it, nor a QuantizeLinear without a type, which is one to uint8.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView
from trtsmith.converter.rewrite.rules.quantized.element_types import all_equal
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity

_FLOATS = ("float32", "float16", "bfloat16")


def may_be_native(node: NodeView, quantized: str | None) -> bool:
    """Tells whether TensorRT may take the node, as long as the scale's granularity is unknown."""
    return is_native(node, quantized, Granularity("tensor"))


def is_native(node: NodeView, quantized: str | None, grain: Granularity) -> bool:
    """Tells whether TensorRT computes the node as ONNX does. `quantized`: the type of the quantized side."""
    if quantized not in ("int8", "int4", "float8_e4m3fn", "float4_e2m1fn"):
        return False
    if node.input(2) and (node.folded(2) or not all_equal(node.constant(2), 0)):
        return False
    scale = node.constant(1)
    if scale is None and grain.kind == "axis" and grain.size is None:
        return False
    signed = quantized == "int4" and node.op_type == "DequantizeLinear"
    if scale is not None and not signed and not bool((scale.astype("float32") > 0).all()):
        return False
    if quantized == "float4_e2m1fn" and grain.block != 16:
        return False
    if quantized == "int4" and _odd(node):
        return False
    low_scale = quantized.startswith("float") and node.dtype(1) == "float8_e8m0fnu"
    return grain.divides and (low_scale or node.dtype(1) in (*_FLOATS, None))


def _odd(node: NodeView) -> bool:
    shape = node.shape(0)
    return shape is not None and all(size is not None and size % 2 for size in shape)
