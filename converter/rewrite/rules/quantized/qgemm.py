"""onnxruntime's QGemm: an exact integer product, an int32 bias, one multiplication.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm: the bias is in steps of
a_scale * b_scale, and alpha is for both; without y_scale the output is float32.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.rules.quantized.lines import Lines
from trtsmith.converter.rewrite.rules.quantized.matrices import integer_matmul
from trtsmith.converter.rewrite.rules.quantized.requantize import as_float, requantised, with_bias


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
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
    return requantised(lines, total, scale, 8, node.dtype(0), "integer products, exact in float32, rescaled")


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


QGEMM = NodeRule(
    "qgemm",
    "QGemm becomes an exact product, its bias and its rounding",
    ("com.microsoft::QGemm",),
    _rewrite,
)
