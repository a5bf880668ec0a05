"""DequantizeLinear that TensorRT refuses: uint8 around 128 as int8, weights without their zero points, constants
computed, else float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html: (x - x_zero_point) * x_scale, here in float32 and rounded
once to the type of the output. A uint8 value u of zero point 128 is the int8 value u - 128 of zero point 0, and both
saturate at the same x: so such a pair stays in TensorRT's int8.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from trtsmith.converter.rewrite.engine.node_rule import (
    NodeRule,
    NodeView,
    Refusal,
    Replacement,
    constant_node,
)
from trtsmith.converter.rewrite.rules.quantized.dequantized_constants import computed, kept, output_type
from trtsmith.converter.rewrite.rules.quantized.element_types import all_equal, quantised_type
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity, granularity, spread
from trtsmith.converter.rewrite.rules.quantized.lines import FLOAT, Lines
from trtsmith.converter.rewrite.rules.quantized.native_types import is_native, may_be_native


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    given = node.dtype(0) or node.dtype(2)
    grain = granularity(node)
    if isinstance(grain, Refusal):
        return None if may_be_native(node, given) else grain
    if is_native(node, given, grain):
        return None
    signed = _signed_pair(node) or kept(node, grain)
    if signed is not None:
        return signed
    array = node.constant(0)
    if array is not None and node.is_constant(1) and (not node.input(2) or node.is_constant(2)):
        nodes = [constant_node(node.output(0), computed(node, array, grain))]
        return Replacement(nodes, f"{given} constants, dequantised")
    return Replacement(_arithmetic(node, grain).nodes(), f"dequantised from {given} by arithmetic in float32")


def _signed_pair(node: NodeView) -> Replacement | None:
    """A QuantizeLinear to uint8 around 128 and this node after it, as the same pair in int8."""
    maker = node.maker(0)
    if (
        maker is None
        or maker.op_type != "QuantizeLinear"
        or maker.dtype(0) not in ("float32", "float16", "bfloat16")
    ):
        return None
    dtype = quantised_type(maker)
    zeros, more = node.constant(2), maker.constant(2)
    if (
        dtype != "uint8"
        or zeros is None
        or more is None
        or not (all_equal(zeros, 128) and all_equal(more, 128))
    ):
        return None
    names = ("axis", "block_size", "precision", "output_dtype")
    attributes = [
        {a.name: helper.get_attribute_value(a) for a in view.proto.attribute if a.name in names}
        for view in (maker, node)
    ]
    attributes[0].pop("output_dtype", None)
    values = [node.fresh(hint) for hint in ("zeros_in", "zeros_out", "int8")]
    return Replacement(
        [
            constant_node(values[0], np.zeros(more.shape, np.int8)),
            constant_node(values[1], np.zeros(zeros.shape, np.int8)),
            helper.make_node("QuantizeLinear", [*maker.inputs[:2], values[0]], [values[2]], **attributes[0]),
            helper.make_node(
                "DequantizeLinear", [values[2], node.input(1), values[1]], [node.output(0)], **attributes[1]
            ),
        ],
        "uint8 around 128 as int8 around 0, which TensorRT fuses",
    )


def _arithmetic(node: NodeView, grain: Granularity) -> Lines:
    lines = Lines(node)
    steps = lines.cast("steps", "x0", FLOAT)
    if node.input(2) and not all_equal(node.constant(2), 0):
        steps = lines.op("shifted", "Sub", steps, spread(lines, grain, 2, "zero_point"))
    scale = spread(lines, grain, 1, "scale")
    to = output_type(node)
    if to == FLOAT:
        lines.op("y0", "Mul", steps, scale)
    else:
        lines.cast("y0", lines.op("product", "Mul", steps, scale), to)
    return lines


DEQUANTIZE_LINEAR = NodeRule(
    "dequantize",
    "DequantizeLinear with types or zero points that TensorRT lacks becomes a constant, int8 or float32 arithmetic",
    ("DequantizeLinear", "com.microsoft::DequantizeLinear"),
    _rewrite,
)
