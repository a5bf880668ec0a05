"""onnxruntime's QLinear operators without products of matrices: dequantise, compute in float32, quantise.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md gives each by that formula. What it writes are
DequantizeLinear and QuantizeLinear, so that int8 around zero stays quantised where TensorRT fuses it.
"""

from __future__ import annotations

from collections.abc import Callable

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.rules.quantized.lines import Lines, attributes_text
from trtsmith.importers.dtypes import NUMBERS

NUMERICS = (
    "computed between float32 roundings: where a result lies halfway between two steps, onnxruntime's fused kernel "
    "may give the other one"
)

Rewriter = Callable[[NodeView], Replacement | Refusal | None]
Compute = Callable[[Lines, list[str], str], str | Refusal]


def dequantised(lines: Lines, result: str, data: int, scale: int, zero: int) -> str:
    """Input `data` in float32."""
    inputs = [f"x{data}", f"x{scale}", *([f"x{zero}"] if lines.node.input(zero) else [])]
    return lines.op(result, "DequantizeLinear", *inputs)


def quantised(lines: Lines, value: str, scale: int, zero: int, like: int) -> None:
    """Writes y0; of input `like`'s type if there is no zero point."""
    point = f"x{zero}"
    if not lines.node.input(zero):
        point = lines.cast("no_zero", lines.number("nothing", 0), NUMBERS[lines.node.dtype(like) or "uint8"])
    lines.op("y0", "QuantizeLinear", value, f"x{scale}", point)


def around(operands: tuple[tuple[int, int, int], ...], scale: int, zero: int, compute: Compute) -> Rewriter:
    """A rewrite: `operands` (data, scale, zero point) dequantised, `compute`d, quantised by inputs `scale` and `zero`."""

    def rewrite(node: NodeView) -> Replacement | Refusal | None:
        lines = Lines(node)
        values = [dequantised(lines, f"operand_{data}", data, s, z) for data, s, z in operands]
        result = compute(lines, values, "result")
        if isinstance(result, Refusal):
            return result
        quantised(lines, result, scale, zero, operands[0][0])
        return Replacement(lines.nodes(), "dequantised, computed, quantised", numerics=NUMERICS)

    return rewrite


def plain(op_type: str, *attributes: str) -> Compute:
    """A standard operator with the node's own attributes of these names."""

    def compute(lines: Lines, values: list[str], result: str) -> str | Refusal:
        return lines.op(result, op_type, *values, attributes=attributes_text(lines.node, attributes))

    return compute


def where(lines: Lines, values: list[str], result: str) -> str | Refusal:
    return lines.op(result, "Where", "x0", *values)


def channels_first(compute: Compute) -> Compute:
    """`compute` on data with its channels last if the node says so."""

    def computed(lines: Lines, values: list[str], result: str) -> str | Refusal:
        if not lines.node.attributes.get("channels_last"):
            return compute(lines, values, result)
        rank = lines.node.rank(0)
        if rank is None:
            return Refusal(
                "the rank of the data is not known", "data of known rank", "run onnx.shape_inference"
            )
        to_first, to_last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        turned = lines.op("turned", "Transpose", values[0], attributes=f"<perm = {to_first}>")
        done = compute(lines, [turned], "computed")
        if isinstance(done, Refusal):
            return done
        return lines.op(result, "Transpose", done, attributes=f"<perm = {to_last}>")

    return computed


def softmax(lines: Lines, values: list[str], result: str) -> str | Refusal:
    """`opset` says which Softmax: before 13 it is over all axes from `axis` on."""
    node = lines.node
    rank, axis = node.rank(0), int(node.attributes.get("axis", -1))
    if rank is None:
        return Refusal("the rank of the data is not known", "data of known rank", "run onnx.shape_inference")
    axis %= max(rank, 1)
    whole = int(node.attributes.get("opset", 13)) < 13
    if whole and axis == rank - 1:
        whole = False
    if not whole and (node.opset >= 13 or axis == rank - 1):
        return lines.op(result, "Softmax", values[0], attributes=f"<axis = {axis}>")
    if not whole:
        return Refusal(
            f"softmax over axis {axis} in opset {node.opset}", "opset 13", "convert the model to opset 13"
        )
    flat = lines.op("flat", "Flatten", values[0], attributes=f"<axis = {axis}>")
    done = lines.op("flat_result", "Softmax", flat, attributes="<axis = 1>")
    return lines.op(result, "Reshape", done, lines.op("shape", "Shape", values[0]))


def concat(node: NodeView) -> Replacement | Refusal | None:
    lines = Lines(node)
    parts = [dequantised(lines, f"part_{i}", i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)]
    joined = lines.op("joined", "Concat", *parts, attributes=f"<axis = {int(node.attributes['axis'])}>")
    quantised(lines, joined, 0, 1, 2)
    return Replacement(lines.nodes(), "dequantised, joined, quantised", numerics=NUMERICS)
