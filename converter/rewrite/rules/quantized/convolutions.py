"""ConvInteger and QLinearConv: exact products of 8-bit numbers, by a float32 convolution.

https://onnx.ai/onnx/operators/onnx__QLinearConv.html: padding is the zero point, which is zero once the zero point is
taken away; the bias is int32 in steps of x_scale * w_scale. A reduction that is too long is cut by input channels.
The convolution's results are rounded to whole numbers: those of a sum are that anyway, but for tactics that do not sum
products of the operands themselves, such as Winograd's.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import round_, slice_, unsqueeze
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.converter.rewrite.rules.quantized.exact_products import Reduction, Slice, Sum, exact_sum
from trtsmith.converter.rewrite.rules.quantized.lines import FLOAT, Lines, attributes_text
from trtsmith.converter.rewrite.rules.quantized.operands import operand, untyped
from trtsmith.converter.rewrite.rules.quantized.requantize import requantised, with_bias

_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def conv_integer(node: NodeView) -> Replacement | Refusal | None:
    lines = Lines(node)
    total = _integer_conv(lines, 0, 1, 2, 3, "x0")
    if isinstance(total, Refusal):
        return total
    total.as_int32(lines, "y0")
    return Replacement(lines.nodes(), "integer products, exact in float32")


def qlinear_conv(node: NodeView) -> Replacement | Refusal | None:
    if node.attributes.get("channels_last"):
        return _channels_first(node)
    lines = Lines(node)
    total = _integer_conv(lines, 0, 3, 2, 5, "x0")
    if isinstance(total, Refusal):
        return total
    rank = node.rank(3) or 0
    if node.input(8):
        total = with_bias(lines, total, 8, _by_channel(lines, 8, "bias", rank))
    scales = lines.op("scales", "Mul", "x1", _by_channel(lines, 4, "w_scale", rank))
    scale = lines.op("scale", "Div", scales, _by_channel(lines, 6, "y_scale", rank))
    zero = ""
    if node.rank(7) and node.shape(7) != (1,):  # one for each channel
        zero = lines.cast("y_zero", _by_channel(lines, 7, "y_zeros", rank), FLOAT)
    return requantised(
        lines, total, scale, 7, node.dtype(0), "an integer convolution, exact in float32, rescaled", zero
    )


def _channels_first(node: NodeView) -> Replacement | Refusal:
    """onnxruntime's layout for CPUs: only the data is channels last, never the weights."""
    rank = node.rank(3)
    if rank is None:
        return Refusal("the rank of the weights is not known", "weights of known rank", "make them constants")
    first = [0, rank - 1, *range(1, rank - 1)]
    last = [0, *range(2, rank), 1]
    names = ["turned", *(f"x{i}" if name else '""' for i, name in enumerate(node.inputs) if i)]
    body = f"""
        turned = Transpose <perm = {first}> (x0)
        convolved = QLinearConv {attributes_text(node, _ATTRIBUTES)} ({", ".join(names)})
        y0 = Transpose <perm = {last}> (convolved)
    """
    return Replacement(statements(node, body), "channels first")


def _by_channel(lines: Lines, index: int, name: str, rank: int) -> str:
    """A vector over the output channels, made to broadcast; anything else as it is."""
    node = lines.node
    if not node.rank(index) or node.shape(index) == (1,):
        return f"x{index}"
    lines.add(unsqueeze(name, f"x{index}", list(range(1, rank - 1)), node.opset))
    return name


def _integer_conv(lines: Lines, x: int, w: int, x_zero: int, w_zero: int, data: str) -> Sum | Refusal:
    node = lines.node
    rank = node.rank(w)
    unknown = untyped(node, (x, x_zero), (w, w_zero))
    if unknown or rank is None:
        return Refusal(
            f"the types of {', '.join(map(repr, unknown))} are not known to be of 8 bits"
            if unknown
            else "the rank of the weights is not known",
            "int8 or uint8 data, and weights of known rank",
            "run onnx.shape_inference on the model",
        )
    zero = node.constant(w_zero) if node.input(w_zero) else None
    channels = (node.rank(w_zero) if zero is None else zero.ndim) == 1 and (zero is None or zero.size != 1)
    left = operand(lines, "x", x, x_zero)
    right = operand(
        lines,
        "w",
        w,
        w_zero,
        partial(_column, rank=rank, opset=node.opset) if channels else None,
        lambda zeros: zeros.reshape(-1, *[1] * (rank - 1)) if channels else zeros,
    )
    reduction = _reduction(node, w, rank)
    if isinstance(reduction, Refusal):
        return reduction
    total = exact_sum(lines, left, right, reduction)
    if total is None:
        return Refusal(
            f"one input channel of a kernel of {reduction.terms} elements adds up to more than 2^24",
            "kernels whose products add up to no more",
            "dequantise the model around this node",
        )
    return total


def _column(result: str, data: str, rank: int, opset: int) -> str:
    return unsqueeze(result, data, list(range(1, rank)), opset)


def _reduction(node: NodeView, w: int, rank: int) -> Reduction | Refusal:
    shape = node.shape(w) or ()
    kernel = [size for size in shape[2:] if size is not None]
    group = int(node.attributes.get("group", 1))
    if len(kernel) < rank - 2 or not shape or shape[1] is None:
        return Refusal(
            "the shape of the weights is not known", "weights of known shape", "make them constants"
        )
    channels = int(shape[1]) * (1 if group == 1 else 0)
    taps = int(np.prod(kernel, initial=1))
    attributes = attributes_text(node, _ATTRIBUTES)

    def sliced(lines: Lines, result: str, value: str, part: Slice) -> str:
        lines.add(slice_(result, value, [part[0]], [part[1]], [1], node.opset))
        return result

    def magnitudes(array: np.ndarray) -> np.ndarray:
        sums = array.reshape(*array.shape[:2], -1).astype(np.int64).sum(2)
        return np.asarray(sums if channels else sums.sum(1, keepdims=True))

    return Reduction(
        channels or 1,
        taps if channels else taps * int(shape[1]),  # the channels of a group are not cut apart
        magnitudes,
        sliced,
        sliced,
        lambda result, x, y: (
            f"{result}_raw = Conv {attributes} ({x}, {y})\n{round_(result, f'{result}_raw', node.opset)}"
        ),
        lambda array, part: array[:, part[0] : part[1]],
    )
