"""Models that the rules for onnxruntime's QLinear operators take."""

from __future__ import annotations

import numpy as np

from tests.rule_examples.example import Example

_HEAD = '<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>'
_SCALES = "float sa = {0.05}, uint8 za = {100}, float sy = {0.043}, uint8 zy = {131}"
AWKWARD = np.array([[0, 255, 128, 7, 64], [250, 1, 2, 3, 129]], np.uint8)
_BOTH = {"a": AWKWARD, "b": AWKWARD[::-1].copy()}


def _binary(op_type: str) -> Example:
    return Example(
        "two zero points",
        f"""{_HEAD} g (uint8[2, 5] a, uint8[5] b) => (uint8[2, 5] y) <{_SCALES}, float sb = {{0.017}}, uint8 zb = {{17}}> {{
            y = com.microsoft.QLinear{op_type} (a, sa, za, b, sb, zb, sy, zy)
        }}""",
        feeds={"a": AWKWARD, "b": AWKWARD[1, ::-1].copy()},
        atol=1,
    )


def _unary(name: str, shape: str = "2, 5", out: str = "2, 5", attributes: str = "") -> Example:
    sizes = [int(size) for size in shape.split(",")]
    return Example(
        "one zero point",
        f"""{_HEAD} g (uint8[{shape}] x) => (uint8[{out}] y) <{_SCALES}> {{
            y = com.microsoft.QLinear{name} {attributes} (x, sa, za, sy, zy)
        }}""",
        feeds={"x": np.resize(AWKWARD, sizes)},
        atol=1,
    )


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "qlinear-add": (_binary("Add"),),
    "qlinear-mul": (_binary("Mul"),),
    "qlinear-concat": (
        Example(
            "two scales",
            f"""{_HEAD} g (uint8[2, 5] a, uint8[2, 5] b) => (uint8[2, 10] y)
            <{_SCALES}, float sb = {{0.017}}, uint8 zb = {{17}}> {{
                y = com.microsoft.QLinearConcat <axis = 1> (sy, zy, a, sa, za, b, sb, zb)
            }}""",
            feeds=_BOTH,
            atol=1,
        ),
    ),
    "qlinear-where": (
        Example(
            "two scales",
            f"""{_HEAD} g (float[2, 5] c, uint8[2, 5] a, uint8[2, 5] b) => (uint8[2, 5] y)
            <{_SCALES}, float sb = {{0.017}}, uint8 zb = {{17}}, float zero = {{0}}> {{
                p = Greater (c, zero)
                y = com.microsoft.QLinearWhere (p, a, sa, za, b, sb, zb, sy, zy)
            }}""",
            feeds=_BOTH,
            atol=1,
        ),
    ),
    "qlinear-sigmoid": (_unary("Sigmoid"),),
    "qlinear-leakyrelu": (_unary("LeakyRelu", attributes="<alpha = 0.2>"),),
    "qlinear-softmax": (_unary("Softmax", attributes="<axis = 0, opset = 11>"),),
    "qlinear-globalaveragepool": (
        _unary("GlobalAveragePool", "2, 5, 4, 3", "2, 1, 1, 3", "<channels_last = 1>"),
    ),
    "qlinear-averagepool": (
        _unary(
            "AveragePool",
            "1, 5, 6, 4",
            "1, 5, 5, 3",
            "<kernel_shape = [2, 2], count_include_pad = 1>",
        ),
    ),
}
