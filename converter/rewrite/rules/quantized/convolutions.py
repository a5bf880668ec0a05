"""Rewrites ConvInteger and QLinearConv as a float32 convolution that multiplies 8-bit numbers exactly.

https://onnx.ai/onnx/operators/onnx__QLinearConv.html: padding is the zero point, which is zero once the zero point is
taken away; the bias is int32 in steps of x_scale * w_scale. A reduction that is too long is cut by input channels.
The convolution's results are rounded to whole numbers: those of a sum are that anyway, but for tactics that do not sum
products of the operands themselves, such as Winograd's.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.exact_products import ProductSlicing, Slice, Sum, exact_sum
from trtsmith.converter.rewrite.rules.quantized.operands import operand, require_8_bits
from trtsmith.converter.rewrite.rules.quantized.requantize import requantized, with_bias

_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@node_rule("conv-integer", "ConvInteger")
def conv_integer_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites ConvInteger as exact float32 convolutions."""
    w = Writer(node)
    total = unrefused(_integer_conv(w, 0, 1, 2, 3))
    return Replacement(w.finish(total.as_int32(w)), "integer products, exact in float32")


@node_rule("qlinear-conv", "QLinearConv", "com.microsoft::QLinearConv")
def qlinear_conv_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites QLinearConv as an exact convolution, its bias and its rounding."""
    if node.attributes.get("channels_last"):
        return _channels_first(node)
    w = Writer(node)
    total = unrefused(_integer_conv(w, 0, 3, 2, 5))
    rank = node.rank(3) or 0
    if node.input(8):
        total = with_bias(w, total, 8, _by_channel(w, 8, rank))
    scale = w.Div(w.Mul(w.x[1], _by_channel(w, 4, rank)), _by_channel(w, 6, rank))
    zero = None
    if node.rank(7) and node.shape(7) != (1,):  # one for each channel
        zero = w.Cast(_by_channel(w, 7, rank), to="float32")
    return requantized(
        w, total, scale, 7, node.dtype(0), "an integer convolution, exact in float32, rescaled", zero
    )


def _channels_first(node: NodeView) -> Replacement | Refusal:
    """Rewrites onnxruntime's channels-last data layout for CPUs; the weights are never channels last."""
    rank = node.rank(3)
    if rank is None:
        return Refusal("the rank of the weights is not known", "weights of known rank", "make them constants")
    first = [0, rank - 1, *range(1, rank - 1)]
    last = [0, *range(2, rank), 1]
    w = Writer(node)
    product = w.QLinearConv(w.Transpose(w.x[0], perm=first), *w.x[1:], **node.own(*_ATTRIBUTES))
    return Replacement(w.finish(w.Transpose(product, perm=last)), "channels first")


def _by_channel(w: Writer, index: int, rank: int) -> Value:
    """Reshapes a vector over output channels to broadcast; returns other values unchanged."""
    if not w.node.rank(index) or w.node.shape(index) == (1,):
        return w.x[index]
    return w.unsqueeze(w.x[index], list(range(1, rank - 1)))


def _integer_conv(w: Writer, x: int, weights: int, x_zero: int, w_zero: int) -> Sum | Refusal:
    node = w.node
    require_8_bits(node, (x, x_zero), (weights, w_zero))
    rank = node.known_rank(weights)
    zero = node.constant(w_zero) if node.input(w_zero) else None
    channels = (node.rank(w_zero) if zero is None else zero.ndim) == 1 and (zero is None or zero.size != 1)
    left = operand(w, x, x_zero)
    right = operand(
        w,
        weights,
        w_zero,
        list(range(1, rank)) if channels else [],
        lambda zeros: zeros.reshape(-1, *[1] * (rank - 1)) if channels else zeros,
    )
    reduction = unrefused(_reduction(node, weights, rank))
    total = exact_sum(w, left, right, reduction)
    if total is None:
        return Refusal(
            f"the products of one input channel of a kernel of {reduction.terms} elements may exceed 2^24",
            "kernels whose products stay below 2^24",
            "dequantize the model around this node",
        )
    return total


def _reduction(node: NodeView, weights: int, rank: int) -> ProductSlicing | Refusal:
    shape = node.shape(weights) or ()
    kernel = [size for size in shape[2:] if size is not None]
    group = int(node.attributes.get("group", 1))
    if len(kernel) < rank - 2 or not shape or shape[1] is None:
        return Refusal(
            "the shape of the weights is not known", "weights of known shape", "make them constants"
        )
    channels = int(shape[1]) * (1 if group == 1 else 0)
    taps = int(np.prod(kernel, initial=1))

    def sliced(w: Writer, value: Value, part: Slice) -> Value:
        return w.slice(value, [part[0]], [part[1]], [1])

    def magnitudes(array: np.ndarray) -> np.ndarray:
        sums = array.reshape(*array.shape[:2], -1).astype(np.int64).sum(2)
        return np.asarray(sums if channels else sums.sum(1, keepdims=True))

    return ProductSlicing(
        channels or 1,
        taps if channels else taps * int(shape[1]),  # the channels of a group are not cut apart
        magnitudes,
        sliced,
        sliced,
        lambda w, x, y: w.round(w.Conv(x, y, **node.own(*_ATTRIBUTES))),
        lambda array, part: array[:, part[0] : part[1]],
    )
