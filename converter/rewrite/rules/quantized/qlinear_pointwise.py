"""Rewrites onnxruntime's QLinear operators without matrix products: dequantize, compute in float32, quantize.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md gives each by that formula. What it writes are
DequantizeLinear and QuantizeLinear, so that int8 around zero stays quantized where TensorRT fuses it.
"""

from __future__ import annotations

from collections.abc import Callable

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer

NUMERICS = (
    "computed between float32 roundings: where a result lies halfway between two steps, onnxruntime's fused kernel "
    "may give the other one"
)

Rewriter = Callable[[NodeView], Replacement | Refusal | None]
Compute = Callable[[Writer, list[str]], str | Refusal]


def dequantized(w: Writer, data: int, scale: int, zero: int) -> str:
    """Input `data` in float32."""
    inputs = [f"x{data}", f"x{scale}", *([f"x{zero}"] if w.node.input(zero) else [])]
    return w.do("DequantizeLinear", *inputs)


def quantized(w: Writer, value: str, scale: int, zero: int, like: int) -> None:
    """Writes y0; of input `like`'s type if there is no zero point."""
    point = f"x{zero}"
    if not w.node.input(zero):
        point = w.cast(w.number(0, "float32"), w.node.dtype(like) or "uint8")
    w.do("QuantizeLinear", value, f"x{scale}", point, result="y0")


def around(operands: tuple[tuple[int, int, int], ...], scale: int, zero: int, compute: Compute) -> Rewriter:
    """A rewrite: `operands` (data, scale, zero point) dequantized, `compute`d, quantized by inputs `scale` and `zero`."""

    def rewrite(node: NodeView) -> Replacement | Refusal | None:
        w = Writer(node)
        values = [dequantized(w, data, s, z) for data, s, z in operands]
        result = compute(w, values)
        if isinstance(result, Refusal):
            return result
        quantized(w, result, scale, zero, operands[0][0])
        return Replacement(w.nodes(), "dequantized, computed, quantized", numerics=NUMERICS)

    return rewrite


def plain(op_type: str, *attributes: str) -> Compute:
    """A standard operator with the node's own attributes of these names."""

    def compute(w: Writer, values: list[str]) -> str | Refusal:
        return w.do(op_type, *values, **w.node.own(*attributes))

    return compute


def where(w: Writer, values: list[str]) -> str | Refusal:
    return w.do("Where", "x0", *values)


def channels_first(compute: Compute) -> Compute:
    """`compute` on data with its channels last if the node says so."""

    def computed(w: Writer, values: list[str]) -> str | Refusal:
        if not w.node.attributes.get("channels_last"):
            return compute(w, values)
        rank = w.node.rank(0)
        if rank is None:
            return Refusal(
                "the rank of the data is not known", "data of known rank", "run onnx.shape_inference"
            )
        to_first, to_last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        done = compute(w, [w.transpose(values[0], to_first)])
        if isinstance(done, Refusal):
            return done
        return w.transpose(done, to_last)

    return computed


def softmax(w: Writer, values: list[str]) -> str | Refusal:
    """`opset` says which Softmax: before 13 it is over all axes from `axis` on."""
    node = w.node
    rank, axis = node.rank(0), int(node.attributes.get("axis", -1))
    if rank is None:
        return Refusal("the rank of the data is not known", "data of known rank", "run onnx.shape_inference")
    axis %= max(rank, 1)
    whole = int(node.attributes.get("opset", 13)) < 13
    if whole and axis == rank - 1:
        whole = False
    if not whole and (node.opset >= 13 or axis == rank - 1):
        return w.do("Softmax", values[0], axis=axis)
    if not whole:
        return Refusal(
            f"softmax over axis {axis} in opset {node.opset}", "opset 13", "convert the model to opset 13"
        )
    done = w.do("Softmax", w.do("Flatten", values[0], axis=axis), axis=1)
    return w.do("Reshape", done, w.do("Shape", values[0]))


def concat(node: NodeView) -> Replacement | Refusal | None:
    w = Writer(node)
    parts = [dequantized(w, i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)]
    joined = w.concat(parts, int(node.attributes["axis"]))
    quantized(w, joined, 0, 1, 2)
    return Replacement(w.nodes(), "dequantized, joined, quantized", numerics=NUMERICS)
