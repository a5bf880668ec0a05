"""Defines the rules for ConvInteger and QLinearConv."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.quantized.convolutions import conv_integer, qlinear_conv

CONV_INTEGER = NodeRule(
    "conv-integer",
    "ConvInteger becomes float32 convolutions that are exact",
    ("ConvInteger",),
    conv_integer,
)
QLINEAR_CONV = NodeRule(
    "qlinear-conv",
    "QLinearConv becomes an exact convolution, its bias and its rounding",
    ("QLinearConv", "com.microsoft::QLinearConv"),
    qlinear_conv,
)
