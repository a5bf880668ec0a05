"""Rewrites plugins of old releases of TensorRT, and of its demo/Diffusion, in standard operators.

Source: NVIDIA/TensorRT, release 8.6, under plugin/:
- normalizePlugin and common/kernels/normalizeLayer.cu: x / sqrt(sum of x^2 + eps) * scale, the sum over the channels of a
  pixel or, with acrossSpatial, over an image; with acrossSpatial and a scale for each channel the kernel divides by it.
- reorgPlugin and common/kernels/reorgForward.cu: Darknet's order, in which the input counts as [N, C / s^2, H s, W s].
- coordConvACPlugin/coordConvACPluginKernels.cu: two channels behind the input, each row's and each column's place from -1
  to 1; the kernel mixes up rows and columns of images that are not square.
- batchTilePlugin: the second operand, of batch 1, as often as the first one has images.
- AliasWithName is Caffe2's (caffe2/operators/alias_with_name.h): its operand under another name.
- leakyReluPlugin, clipPlugin, geluPlugin (GELU by tanh, behind an optional bias).

shouxieai/tensorRT_Pro, src/tensorRT/onnxplugin/plugins/HSwish.cu and HSigmoid.cu: x clipped to -3..3, plus 3, over 6; HSwish
multiplies it by x.

Pointwise plugins that demo/Diffusion inserted: NVIDIA/TensorRT, release 8.5, demo/Diffusion/models.py, and under plugin/:
- layerNormPlugin/layerNormPlugin.cpp: `epsilon` and the first `axis` of those that are normalised, -1 where it is absent;
- splitGeLUPlugin/splitGeLUPlugin.cpp and splitGeLUKernel.cu: the left half of the last axis times the GELU of the right one,
  with 1.4140625 for the root of 2;
- seqLen2SpatialPlugin/seqLen2SpatialPlugin.cpp: [B, H * W, C] plus a bias and a residual, as [B, C, H, W]; the sizes are
  those of the fourth operand. Hidden sizes other than those of that network are right here, too.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, Refusal
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import fast_gelu, layer_norm, unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    CAFFE2,
    Plugin,
    kinds,
    narrow,
    rewriter,
    settings,
    wide,
)

_ROOT_OF_TWO = 1.4140625


def _layer_norm(w: Writer, dtype: str) -> Value | Refusal:
    node = w.node
    axis, rank = settings(node, epsilon=1e-5, axis=-1)["axis"], node.rank(0)
    if axis != -1 and (rank is None or axis != rank - 1):
        return Refusal(
            f"it normalizes all axes from {axis} on, of {rank or 'an unknown number of'} dimensions",
            "only the last axis",
            "flatten the normalized axes before the node",
        )
    data, scale, shift = (wide(w, i) for i in range(3))
    return narrow(w, layer_norm(w, data, scale, shift, "float32", default=1e-5), dtype)


def _split_gelu(w: Writer, dtype: str) -> Value | Refusal:
    settings(w.node)
    dims = w.node.shape(0)
    size = dims[-1] if dims else None
    if not size:
        return unknown(w.node, 0, "the last size")
    if size % 2:
        return Refusal(
            f"the last size is {size}", "an even size", "correct the number of channels ahead of the node"
        )
    rank = len(dims or ())
    left, right = w.split(wide(w, 0), [size // 2] * 2, rank - 1)
    bent = w.Erf(w.Mul(right, 1 / _ROOT_OF_TWO))
    gelu = w.Mul(w.Mul(w.Add(bent, 1.0), right), 0.5)
    return narrow(w, w.Mul(gelu, left), dtype)


def _to_spatial(w: Writer, dtype: str) -> Value:
    settings(w.node)
    total = w.Add(w.Add(w.x[0], w.Reshape(w.x[1], shape=[-1])), w.x[2])
    height, width = (w.size(w.x[3], axis) for axis in (2, 3))
    image = w.Reshape(total, shape=[w.size(w.x[0], 0), height, width, w.size(w.x[0], 2)])
    return w.Transpose(image, perm=[0, 3, 1, 2])


_DIFFUSION = {
    "LayerNorm": Plugin(_layer_norm, "LayerNormalization", 3, floats=(0, 1, 2)),
    "SplitGeLU": Plugin(_split_gelu, "Split, Erf and products"),
    "SeqLen2Spatial": Plugin(_to_spatial, "sums and Transpose", 4, floats=(0, 1, 2), alike=True),
}

STOCK_DIFFUSION = NodeRule(
    "stock-diffusion",
    "pointwise plugins of TensorRT's demo/Diffusion become standard operators",
    kinds(*_DIFFUSION),
    rewriter(_DIFFUSION),
)


_NONE = np.zeros(0, np.float32)


def _normalize(w: Writer, dtype: str) -> Value | Refusal:
    given = settings(w.node, weights=_NONE, acrossSpatial=int, channelShared=int, eps=float, nbWeights=1)
    weights, shared, across = given["weights"], bool(given["channelShared"]), bool(given["acrossSpatial"])
    dims = w.node.shape(0)
    channels = dims[1] if dims and len(dims) == 4 else None
    if not weights.size or (not shared and channels not in (None, weights.size)):
        return Refusal(
            f"it has {weights.size} weights for {channels or 'unknown'} channels",
            "one weight if channelShared is set, otherwise one for each channel",
            "correct the attribute 'weights'",
        )
    if across and not shared:
        return Refusal(
            "acrossSpatial is set without channelShared: TensorRT's plugin then divides by the weights",
            "one weight, or channels normalised pixel by pixel",
            "write the normalisation in standard operators where the model is made",
        )
    data = wide(w, 0)
    total = w.reduce("ReduceSum", w.Mul(data, data), [1, 2, 3] if across else [1])
    length = w.Sqrt(w.Add(total, float(given["eps"])))
    scale = weights[:1] if shared else weights.reshape(-1, 1, 1)
    return narrow(w, w.Mul(w.Div(data, length), scale), dtype)


def _reorg(w: Writer, dtype: str) -> Value | Refusal:
    stride, dims = settings(w.node, stride=int)["stride"], w.node.shape(0)
    if dims is None or len(dims) != 4:
        return unknown(w.node, 0, "the rank")
    _, channels, height, width = dims
    if channels is None or height is None or width is None:
        return unknown(w.node, 0, "a size")
    square = stride * stride
    if stride < 1 or channels % square or height % stride or width % stride:
        return Refusal(
            f"its stride is {stride}, and the input has {channels} channels of {height}x{width}",
            "a stride that divides both sides, and whose square divides the channels",
            "correct the stride where the node is made",
        )
    spread = w.Reshape(w.x[0], shape=[-1, channels // square, height * stride, width * stride])
    folded = w.SpaceToDepth(spread, blocksize=stride)
    return w.Reshape(folded, shape=[-1, channels * square, height // stride, width // stride])


def _coordinates(w: Writer, dtype: str) -> Value | Refusal:
    settings(w.node)
    dims = w.node.shape(0)
    height, width = dims[2:] if dims is not None and len(dims) == 4 else (None, None)
    if height is None or width is None:
        return unknown(w.node, 0, "a spatial size")
    if height != width or height < 2:
        return Refusal(
            f"its images are {height}x{width}: TensorRT's plugin mixes up rows and columns of such images",
            "square images of at least 2x2",
            "concatenate the coordinates by standard operators where the model is made",
        )
    line = np.arange(height, dtype=np.float32) * np.float32(2 / (height - 1)) - 1
    plane = np.stack(np.meshgrid(line, line, indexing="ij"))[None]
    batch = w.Concat(w.size(w.x[0], 0), [1, 1, 1], axis=0)
    return w.Concat(w.x[0], w.Cast(w.Expand(plane, batch), to=dtype), axis=1)


def _tile(w: Writer, dtype: str) -> Value | Refusal:
    settings(w.node)
    dims = w.node.shape(1)
    if dims is None:
        return unknown(w.node, 1, "the rank")
    if dims[:1] != (1,):
        return Refusal(
            f"the batch of its second operand is {dims[0] if dims else 'missing'}",
            "a batch of 1",
            "export the model with that operand as one image",
        )
    return w.Expand(w.x[1], [w.size(w.x[0], 0), *[1] * (len(dims) - 1)])


def _leaky_relu(w: Writer, dtype: str) -> Value:
    return w.LeakyRelu(w.x[0], alpha=float(settings(w.node, negSlope=float)["negSlope"]))


def _clip(w: Writer, dtype: str) -> Value:
    given = settings(w.node, clipMin=float, clipMax=float)
    return w.clip(w.x[0], float(given["clipMin"]), float(given["clipMax"]), dtype)


def _gelu(w: Writer, dtype: str) -> Value:
    given = settings(w.node, type_id=0, bias=_NONE)
    data = wide(w, 0)
    shifted = w.Add(data, given["bias"]) if given["bias"].size else data
    return narrow(w, fast_gelu(w, shifted, "float32"), dtype)


def _hard_sigmoid(w: Writer, dtype: str) -> Value:
    settings(w.node)
    return w.HardSigmoid(w.x[0], alpha=1 / 6, beta=0.5)


def _hard_swish(w: Writer, dtype: str) -> Value:
    return w.Mul(w.x[0], _hard_sigmoid(w, dtype))


def _alias(w: Writer, dtype: str) -> Value:
    settings(w.node, name="", is_backward=0)
    return w.Identity(w.x[0])


_LAYERS = {
    "AliasWithName": Plugin(_alias, "Identity", floats=()),
    "Normalize_TRT": Plugin(_normalize, "a sum of squares and a quotient"),
    "Reorg_TRT": Plugin(_reorg, "SpaceToDepth in Darknet's order"),
    "CoordConvAC": Plugin(_coordinates, "Concat with constant coordinates"),
    "BatchTilePlugin_TRT": Plugin(_tile, "Expand", 2, floats=()),
    "LReLU_TRT": Plugin(_leaky_relu, "LeakyRelu"),
    "Clip_TRT": Plugin(_clip, "Clip"),
    "CustomGeluPluginDynamic": Plugin(_gelu, "GELU by tanh"),
    "HSigmoid": Plugin(_hard_sigmoid, "HardSigmoid"),
    "HSwish": Plugin(_hard_swish, "HardSigmoid and a product"),
}

STOCK_LEGACY_LAYERS = NodeRule(
    "stock-legacy-layers",
    "plugins of old releases of TensorRT and of tensorRT_Pro, and Caffe2's alias, become standard operators",
    kinds(*_LAYERS, domains=(CAFFE2,)),
    rewriter(_LAYERS),
)
