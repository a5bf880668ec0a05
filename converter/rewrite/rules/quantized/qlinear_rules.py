"""The rules for onnxruntime's QLinear operators that are dequantised, computed in float32 and quantised."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule
from trtsmith.converter.rewrite.rules.quantized.qlinear_pointwise import (
    AWKWARD,
    Compute,
    around,
    channels_first,
    concat,
    plain,
    softmax,
    where,
)

_HEAD = '<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>'
_SCALES = "float sa = {0.05}, uint8 za = {100}, float sy = {0.043}, uint8 zy = {131}"
_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def _binary(op_type: str) -> NodeRule:
    example = Example(
        "two zero points",
        f"""{_HEAD} g (uint8[2, 5] a, uint8[5] b) => (uint8[2, 5] y) <{_SCALES}, float sb = {{0.017}}, uint8 zb = {{17}}> {{
            y = com.microsoft.QLinear{op_type} (a, sa, za, b, sb, zb, sy, zy)
        }}""",
        feeds={"a": AWKWARD, "b": AWKWARD[1, ::-1].copy()},
        atol=1,
    )
    return NodeRule(
        f"qlinear-{op_type.lower()}",
        f"QLinear{op_type} becomes {op_type} between DequantizeLinear and QuantizeLinear",
        (f"com.microsoft::QLinear{op_type}",),
        around(((0, 1, 2), (3, 4, 5)), 6, 7, plain(op_type)),
        (example,),
    )


def _unary(
    name: str, compute: Compute, shape: str = "2, 5", out: str = "2, 5", attributes: str = ""
) -> NodeRule:
    sizes = [int(size) for size in shape.split(",")]
    example = Example(
        "one zero point",
        f"""{_HEAD} g (uint8[{shape}] x) => (uint8[{out}] y) <{_SCALES}> {{
            y = com.microsoft.QLinear{name} {attributes} (x, sa, za, sy, zy)
        }}""",
        feeds={"x": np.resize(AWKWARD, sizes)},
        atol=1,
    )
    return NodeRule(
        f"qlinear-{name.lower()}",
        f"QLinear{name} becomes its operator between DequantizeLinear and QuantizeLinear",
        (f"com.microsoft::QLinear{name}",),
        around(((0, 1, 2),), 3, 4, compute),
        (example,),
    )


_CONCAT = NodeRule(
    "qlinear-concat",
    "QLinearConcat becomes Concat between DequantizeLinear and QuantizeLinear",
    ("com.microsoft::QLinearConcat",),
    concat,
    (
        Example(
            "two scales",
            f"""{_HEAD} g (uint8[2, 5] a, uint8[2, 5] b) => (uint8[2, 10] y)
            <{_SCALES}, float sb = {{0.017}}, uint8 zb = {{17}}> {{
                y = com.microsoft.QLinearConcat <axis = 1> (sy, zy, a, sa, za, b, sb, zb)
            }}""",
            feeds={"a": AWKWARD, "b": AWKWARD[::-1].copy()},
            atol=1,
        ),
    ),
)

_WHERE = NodeRule(
    "qlinear-where",
    "QLinearWhere becomes Where between DequantizeLinear and QuantizeLinear",
    ("com.microsoft::QLinearWhere",),
    around(((1, 2, 3), (4, 5, 6)), 7, 8, where),
    (
        Example(
            "two scales",
            f"""{_HEAD} g (float[2, 5] c, uint8[2, 5] a, uint8[2, 5] b) => (uint8[2, 5] y)
            <{_SCALES}, float sb = {{0.017}}, uint8 zb = {{17}}, float zero = {{0}}> {{
                p = Greater (c, zero)
                y = com.microsoft.QLinearWhere (p, a, sa, za, b, sb, zb, sy, zy)
            }}""",
            feeds={"a": AWKWARD, "b": AWKWARD[::-1].copy()},
            atol=1,
        ),
    ),
)

QLINEAR_POINTWISE: tuple[NodeRule, ...] = (
    _binary("Add"),
    _binary("Mul"),
    _CONCAT,
    _WHERE,
    _unary("Sigmoid", plain("Sigmoid")),
    _unary("LeakyRelu", plain("LeakyRelu", "alpha"), attributes="<alpha = 0.2>"),
    _unary("Softmax", softmax, attributes="<axis = 0, opset = 11>"),
    _unary(
        "GlobalAveragePool",
        channels_first(plain("GlobalAveragePool")),
        "2, 5, 4, 3",
        "2, 1, 1, 3",
        "<channels_last = 1>",
    ),
    _unary(
        "AveragePool",
        channels_first(plain("AveragePool", *_POOL)),
        "1, 5, 6, 4",
        "1, 5, 5, 3",
        "<kernel_shape = [2, 2], count_include_pad = 1>",
    ),
)
