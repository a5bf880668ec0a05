"""Rewrites onnxruntime's QLinear operators other than matrix products: dequantize, compute in float32, quantize.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md gives each by that formula. What it writes are
DequantizeLinear and QuantizeLinear, so that int8 around zero stays quantized where TensorRT fuses it.
"""

from __future__ import annotations

from collections.abc import Callable

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer

NUMERICS = (
    "computed between float32 roundings: where a result lies halfway between two steps, onnxruntime's fused kernel "
    "may give the other one"
)

Rewriter = Callable[[NodeView], Replacement | Refusal | None]
Compute = Callable[[Writer, list[Value]], Value | Refusal]


def dequantized(w: Writer, data: int, scale: int, zero: int) -> Value:
    """Dequantizes input `data` to float32."""
    inputs = [w.x[data], w.x[scale], *([w.x[zero]] if w.node.input(zero) else [])]
    return w.DequantizeLinear(*inputs)


def quantized(w: Writer, value: Value, scale: int, zero: int, like: int) -> Value:
    """Quantizes a value, to the type of input `like` if there is no zero point."""
    point = w.x[zero]
    if not w.node.input(zero):
        point = w.Cast(0.0, to=w.node.dtype(like) or "uint8")
    return w.QuantizeLinear(value, w.x[scale], point)


def around(operands: tuple[tuple[int, int, int], ...], scale: int, zero: int, compute: Compute) -> Rewriter:
    """Makes a rewrite that dequantizes `operands` (data, scale, zero point), calls `compute`, and quantizes by inputs
    `scale` and `zero`.
    """

    def rewrite(node: NodeView) -> Replacement | Refusal | None:
        w = Writer(node)
        values = [dequantized(w, data, s, z) for data, s, z in operands]
        result = unrefused(compute(w, values))
        nodes = w.finish(quantized(w, result, scale, zero, operands[0][0]))
        return Replacement(nodes, "dequantized, computed, quantized", numerics=NUMERICS)

    return rewrite


def plain(op_type: str, *attributes: str) -> Compute:
    """Makes a computation by one standard operator with these attributes of the node."""

    def compute(w: Writer, values: list[Value]) -> Value | Refusal:
        result: Value = w.write(op_type, *values, **w.node.own(*attributes))
        return result

    return compute


def where(w: Writer, values: list[Value]) -> Value | Refusal:
    return w.Where(w.x[0], *values)


def channels_first(compute: Compute) -> Compute:
    """Wraps `compute` for data that is channels last if the node says so."""

    def computed(w: Writer, values: list[Value]) -> Value | Refusal:
        if not w.node.attributes.get("channels_last"):
            return compute(w, values)
        rank = w.node.known_rank(0)
        to_first, to_last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        done = unrefused(compute(w, [w.Transpose(values[0], perm=to_first)]))
        return w.Transpose(done, perm=to_last)

    return computed


def softmax(w: Writer, values: list[Value]) -> Value | Refusal:
    """Writes Softmax as the attribute `opset` defines it: before 13, over all axes from `axis` on."""
    node = w.node
    rank, axis = node.known_rank(0), int(node.attributes.get("axis", -1))
    axis %= max(rank, 1)
    whole = int(node.attributes.get("opset", 13)) < 13
    if whole and axis == rank - 1:
        whole = False
    if not whole and (node.opset >= 13 or axis == rank - 1):
        return w.Softmax(values[0], axis=axis)
    if not whole:
        return Refusal(
            f"softmax over axis {axis} in opset {node.opset}", "opset 13", "convert the model to opset 13"
        )
    return w.Reshape(w.Softmax(w.Flatten(values[0], axis=axis), axis=1), w.Shape(values[0]))


def concat(node: NodeView) -> Replacement | Refusal | None:
    w = Writer(node)
    parts = [dequantized(w, i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)]
    joined = w.Concat(*parts, axis=int(node.attributes["axis"]))
    return Replacement(
        w.finish(quantized(w, joined, 0, 1, 2)), "dequantized, joined, quantized", numerics=NUMERICS
    )


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def _rule(op_type: str, becomes: str, rewrite: Rewriter) -> NodeRule:
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
