"""Defines the rules for onnxruntime's QLinear operators that are dequantized, computed in float32 and quantized."""

from __future__ import annotations

from collections.abc import Callable

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.rules.quantized.qlinear_pointwise import (
    Compute,
    around,
    channels_first,
    concat,
    plain,
    softmax,
    where,
)

_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


RuleFunction = Callable[[NodeView], Replacement | Refusal | None]


def _rule(op_type: str, becomes: str, rewrite: RuleFunction) -> NodeRule:
    return NodeRule(
        f"qlinear-{op_type.lower()}",
        f"QLinear{op_type} becomes {becomes} between DequantizeLinear and QuantizeLinear",
        (f"com.microsoft::QLinear{op_type}",),
        rewrite,
    )


def _unary(op_type: str, compute: Compute) -> NodeRule:
    return _rule(op_type, "its operator", around(((0, 1, 2),), 3, 4, compute))


QLINEAR_POINTWISE: tuple[NodeRule, ...] = (
    *(
        _rule(op_type, op_type, around(((0, 1, 2), (3, 4, 5)), 6, 7, plain(op_type)))
        for op_type in ("Add", "Mul")
    ),
    _rule("Concat", "Concat", concat),
    _rule("Where", "Where", around(((1, 2, 3), (4, 5, 6)), 7, 8, where)),
    _unary("Sigmoid", plain("Sigmoid")),
    _unary("LeakyRelu", plain("LeakyRelu", "alpha")),
    _unary("Softmax", softmax),
    _unary("GlobalAveragePool", channels_first(plain("GlobalAveragePool"))),
    _unary("AveragePool", channels_first(plain("AveragePool", *_POOL))),
)
