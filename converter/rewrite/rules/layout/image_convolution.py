"""Rewrites a network's first convolution, of an image with few channels, as a convolution over blocks of pixels.

TensorRT-RTX has no fast kernel for three channels: in an engine of ResNet-18 on images of 512x512 the first of twenty
convolutions took a third of the time. With a stride of s, the s x s pixels of a block can as well be channels: 7x7 over 3
channels is 4x4 over 12, with zeros for the eighth row and column, and the stride is gone. Patch embeddings become 1x1.

Measured on an H200 in TensorRT-RTX 1.6.1 with a Relu behind it, in us, fp16 and fp32: 7x7 stride 2 on 8 x 3 x 512 x 512, 650
to 224 and 1135 to 218; the same on 3 x 800 x 1333, 350 to 130 and 597 to 130; 16x16 stride 16 on 8 x 3 x 224 x 224, 144 to
21 and 246 to 24. Without channels up to a multiple of 16 the first takes 345. 3x3 with stride 2 gains nothing: 113 to 153.
"""

from __future__ import annotations

from math import prod

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.target import Fault

_FAULT = Fault(
    "tensorrt_rtx",
    ("1.6.1",),
    "is three to ten times as slow at a strided convolution of few channels as at the same one of blocks of pixels",
    "engines of both forms, timed on an H200",
)

MOST_CHANNELS = 4
MULTIPLE = 16
"""Of channels: that which its kernels are fast at."""

MOST_WORK = 1.8
"""Products of the new form over those of the old one, zeros included."""

LEAST_PIXELS = 128 * 128
"""Of an image. On smaller ones there is little to gain, and laying them out takes a kernel of its own."""

_TYPES = ("float32", "float16", "bfloat16")


@node_rule("image-convolution", "Conv", faults=(_FAULT,))
def image_convolution_rule(node: NodeView) -> Replacement | None:
    """Rewrites the strided convolution of an image with few channels, which is slow in TensorRT-RTX."""
    shape, weights_shape = node.shape(0), node.shape(1)
    if shape is None or weights_shape is None or len(shape) != 4 or len(weights_shape) != 4:
        return None
    attributes = node.attributes
    strides = [int(stride) for stride in attributes.get("strides") or (1, 1)]
    dilated = any(dilation != 1 for dilation in attributes.get("dilations") or ())
    height, width = shape[2:]
    channels = weights_shape[1]
    if (
        channels is None
        or channels > MOST_CHANNELS
        or min(strides) < 2
        or dilated
        or attributes.get("group", 1) != 1
        or attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or height is None
        or width is None
        or height * width < LEAST_PIXELS
        or node.dtype(0) not in _TYPES
        or not node.is_constant(1)
    ):
        return None
    maker = node.producer(0)
    if maker is not None and maker.op_type == "DequantizeLinear":
        return None  # TensorRT makes one convolution of 8 bits of the two
    kernel = np.asarray(node.constant(1))
    pads = [int(pad) for pad in attributes.get("pads") or (0, 0, 0, 0)]
    return _as_blocks(node, kernel, (height, width), strides, pads)


def _as_blocks(
    node: NodeView, kernel: np.ndarray, size: tuple[int, int], strides: list[int], pads: list[int]
) -> Replacement | None:
    _, channels, *taps = kernel.shape
    blocks = [-(-tap // stride) for tap, stride in zip(taps, strides, strict=True)]
    counts = [(size[i] + pads[i] + pads[i + 2] - taps[i]) // strides[i] + blocks[i] for i in (0, 1)]
    after = [counts[i] * strides[i] - size[i] - pads[i] for i in (0, 1)]
    depth = channels * prod(strides)
    filled = -(-depth // MULTIPLE) * MULTIPLE
    work = prod(blocks) * filled / (prod(taps) * channels)
    if min(after) < 0 or min(counts) < 1 or work > MOST_WORK:
        return None
    w = Writer(node)
    data = w.pad(w.x[0], [0, 0, pads[0], pads[1], 0, 0, *after])
    split = w.Reshape(data, shape=[-1, channels, counts[0], strides[0], counts[1], strides[1]])
    data = w.Reshape(w.Transpose(split, perm=[0, 1, 3, 5, 2, 4]), shape=[-1, depth, *counts])
    if filled > depth:
        data = w.pad(data, [0, 0, 0, 0, 0, filled - depth, 0, 0])
    bias = [w.x[2]] if node.input(2) else []
    weights = _block_weights(kernel, blocks, strides, filled)
    result = w.Conv(data, weights, *bias, kernel_shape=blocks)
    what = f"a convolution of {strides[0]}x{strides[1]} blocks of pixels as channels, {blocks[0]}x{blocks[1]} of them"
    return Replacement(
        w.finish(result), what, notes=(node.because((_FAULT,), "it is written with blocks as channels"),)
    )


def _block_weights(kernel: np.ndarray, blocks: list[int], strides: list[int], filled: int) -> np.ndarray:
    """Rearranges [O, C, KH, KW] into [O, C * SH * SW, BH, BW], with zeros after the last row, column and channel."""
    outputs, channels, height, width = kernel.shape
    rows, columns = (block * stride for block, stride in zip(blocks, strides, strict=True))
    whole = np.zeros((outputs, channels, rows, columns), kernel.dtype)
    whole[:, :, :height, :width] = kernel
    parts = whole.reshape(outputs, channels, blocks[0], strides[0], blocks[1], strides[1])
    moved = parts.transpose(0, 1, 3, 5, 2, 4).reshape(outputs, channels * prod(strides), *blocks)
    result = np.zeros((outputs, filled, *blocks), kernel.dtype)
    result[:, : moved.shape[1]] = moved
    return result
