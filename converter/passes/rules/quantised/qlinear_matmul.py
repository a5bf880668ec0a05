"""QLinearMatMul and onnxruntime's QGemm: an exact integer product, then one multiplication, as onnxruntime does.

https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html and
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md: the steps are
(A - a_zero) @ (B - b_zero) * (a_scale * b_scale / y_scale), rounded half to even, plus y_zero.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.opset_forms import unsqueeze
from converter.passes.rules.quantised.exact_products import EXACT, Sum
from converter.passes.rules.quantised.lines import FLOAT, Lines
from converter.passes.rules.quantised.matrices import integer_matmul
from converter.passes.rules.quantised.rounding import saturated
from converter.passes.rules.quantised.types import LOW_FLOATS, RANGES


def _matmul(node: NodeView) -> Replacement | Refusal | None:
    if node.dtype(0) in LOW_FLOATS:
        return Refusal(
            f"it multiplies {node.dtype(0)}",
            "int8 or uint8",
            "export the model with DequantizeLinear and MatMul",
        )
    lines = Lines(node)
    total = integer_matmul(lines, 0, 3, 2, 5)
    if isinstance(total, Refusal):
        return total
    rank = node.rank(1)
    a_scale = "x1"
    if rank == 1 and node.shape(1) != (1,):  # one for each row
        lines.add(unsqueeze("a_scale", "x1", [1], node.opset))
        a_scale = "a_scale"
    scale = lines.op("scale", "Div", lines.op("scales", "Mul", a_scale, "x4"), "x6")
    if node.dtype(1) != "float32":
        scale = lines.cast("wide_scale", scale, FLOAT)
    return _requantised(lines, total, scale, 7, "integer products, exact in float32, rescaled")


def _gemm(node: NodeView) -> Replacement | Refusal | None:
    if node.attributes.get("transA") or node.attributes.get("transB"):
        return _transposed(node)
    lines = Lines(node)
    total = integer_matmul(lines, 0, 3, 2, 5)
    if isinstance(total, Refusal):
        return total
    if node.input(6):
        total = with_bias(lines, total, 6, "x6")
    scale = lines.op("scales", "Mul", "x1", "x4")
    alpha = float(node.attributes.get("alpha", 1.0))
    if alpha != 1.0:
        scale = lines.op("scaled", "Mul", lines.number("alpha", alpha), scale)
    if not node.input(7):
        lines.op("y0", "Mul", as_float(lines, total), scale)
        return Replacement(
            lines.nodes(), "integer products, exact in float32, scaled", numerics=total.numerics
        )
    scale = lines.op("scale", "Div", scale, "x7")
    return _requantised(lines, total, scale, 8, "integer products, exact in float32, rescaled")


def _transposed(node: NodeView) -> Replacement:
    """The same without transA and transB: constants stay constants through a Transpose."""
    lines = Lines(node)
    names = [f"x{i}" if name else '""' for i, name in enumerate(node.inputs)]
    for index, attribute in ((0, "transA"), (3, "transB")):
        if node.attributes.get(attribute):
            array = node.constant(index)
            if array is not None:
                names[index] = lines.bind(f"turned_{index}", np.ascontiguousarray(array.T))
            else:
                names[index] = lines.op(
                    f"turned_{index}", "Transpose", names[index], attributes="<perm = [1, 0]>"
                )
    alpha = float(node.attributes.get("alpha", 1.0))
    lines.op("y0", "com.microsoft.QGemm", *names, attributes=f"<alpha = {alpha!r}>")
    return Replacement(lines.nodes(), "operands transposed")


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


def _requantised(lines: Lines, total: Sum, scale: str, zero_point: int, what: str) -> Replacement | Refusal:
    return requantised(lines, total, scale, zero_point, lines.node.dtype(0), what)


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


_A = np.array([[0, 255, 128, 7], [250, 1, 2, 3], [9, 80, 70, 60]], np.uint8)

_MATMUL = (
    Example(
        "scales of rows and columns",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[3, 4] a) => (uint8[3, 2] y)
        <float[1] sa = {0.01}, uint8[1] za = {113}, int8[4, 2] b = {1, -128, 127, 5, -6, 7, 90, -100},
         float[2] sb = {0.02, 0.01}, int8[2] zb = {0, -3}, float sy = {0.05}, uint8 zy = {121}> {
            y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy)
        }""",
        feeds={"a": _A},
        reference=True,
    ),
    Example(
        "int8 from uint8",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[3, 4] a) => (int8[3, 2] y)
        <float sa = {0.01}, uint8 za = {113}, uint8[4, 2] b = {1, 128, 127, 5, 255, 7, 90, 0},
         float sb = {0.02}, uint8 zb = {200}, float sy = {0.04}, int8 zy = {-7}> {
            y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy)
        }""",
        feeds={"a": _A},
        reference=True,
    ),
)

_GEMM = (
    Example(
        "with bias and alpha",
        """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[3, 4] a) => (uint8[3, 2] y)
        <float sa = {0.01}, uint8 za = {113}, int8[2, 4] b = {1, -128, 127, 5, -6, 7, 90, -100},
         float[2] sb = {0.02, 0.01}, int8[2] zb = {0, 0}, int32[2] c = {3000, -50}, float sy = {0.05}, uint8 zy = {121}> {
            y = com.microsoft.QGemm <transB = 1, alpha = 0.75> (a, sa, za, b, sb, zb, c, sy, zy)
        }""",
        feeds={"a": _A},
    ),
    Example(
        "to float32",
        """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (uint8[3, 4] a) => (float[3, 2] y)
        <float sa = {0.01}, uint8 za = {113}, int8[4, 2] b = {1, -128, 127, 5, -6, 7, 90, -100},
         float sb = {0.02}, int8 zb = {4}, int32[2] c = {100000, -50}> {
            y = com.microsoft.QGemm (a, sa, za, b, sb, zb, c)
        }""",
        feeds={"a": _A},
    ),
)

QLINEAR_MATMUL = NodeRule(
    "qlinear-matmul",
    "QLinearMatMul becomes an exact product and its rounding",
    ("QLinearMatMul",),
    _matmul,
    _MATMUL,
)
QGEMM = NodeRule(
    "qgemm",
    "QGemm becomes an exact product, its bias and its rounding",
    ("com.microsoft::QGemm",),
    _gemm,
    _GEMM,
)
