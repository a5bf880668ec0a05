"""Rewrites plugins of old releases of TensorRT that its own layers compute.

Source: NVIDIA/TensorRT, release 8.6, under plugin/:
- normalizePlugin and common/kernels/normalizeLayer.cu: x / sqrt(sum of x^2 + eps) * scale, the sum over the channels of a
  pixel or, with acrossSpatial, over an image; with acrossSpatial and a scale for each channel the kernel divides by it.
- reorgPlugin and common/kernels/reorgForward.cu: Darknet's order, in which the input counts as [N, C / s^2, H s, W s].
- coordConvACPlugin/coordConvACPluginKernels.cu: two channels behind the input, each row's and each column's place from -1
  to 1; the kernel mixes up rows and columns of images that are not square.
- batchTilePlugin: the second operand, of batch 1, as often as the first one has images.
- leakyReluPlugin, clipPlugin, geluPlugin (GELU by tanh, behind an optional bias).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import fast_gelu, unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    wide,
)

Body = Callable[[Writer, str], Value | Refusal]

_NONE = np.zeros(0, np.float32)


def _normalize(w: Writer, dtype: str) -> Value | Refusal:
    given = settings(w.node, weights=_NONE, acrossSpatial=int, channelShared=int, eps=float, nbWeights=1)
    if isinstance(given, Refusal):
        return given
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
            "acrossSpatial is set and channelShared is not: TensorRT's plugin divides by the weights then",
            "one weight, or channels normalised pixel by pixel",
            "write the normalisation in standard operators where the model is made",
        )
    data = wide(w, w.x[0], dtype)
    total = w.reduce("ReduceSum", w.Mul(data, data), [1, 2, 3] if across else [1])
    length = w.Sqrt(w.Add(total, float(given["eps"])))
    scale = weights[:1] if shared else weights.reshape(-1, 1, 1)
    return narrow(w, w.Mul(w.Div(data, length), scale), dtype)


def _reorg(w: Writer, dtype: str) -> Value | Refusal:
    given, dims = settings(w.node, stride=int), w.node.shape(0)
    if isinstance(given, Refusal):
        return given
    if dims is None or len(dims) != 4:
        return unknown(w.node, 0, "the rank")
    stride, (_, channels, height, width) = given["stride"], dims
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
    given, dims = settings(w.node), w.node.shape(0)
    if isinstance(given, Refusal):
        return given
    height, width = dims[2:] if dims is not None and len(dims) == 4 else (None, None)
    if height is None or width is None:
        return unknown(w.node, 0, "a spatial size")
    if height != width or height < 2:
        return Refusal(
            f"its images are {height}x{width}: TensorRT's plugin mixes up rows and columns of such",
            "square images of at least 2x2",
            "concatenate the coordinates by standard operators where the model is made",
        )
    line = np.arange(height, dtype=np.float32) * np.float32(2 / (height - 1)) - 1
    plane = np.stack(np.meshgrid(line, line, indexing="ij"))[None]
    batch = w.Concat(w.size(w.x[0], 0), [1, 1, 1], axis=0)
    return w.Concat(w.x[0], w.Cast(w.Expand(plane, batch), to=dtype), axis=1)


def _tile(w: Writer, dtype: str) -> Value | Refusal:
    given, dims = settings(w.node), w.node.shape(1)
    if isinstance(given, Refusal):
        return given
    if dims is None:
        return unknown(w.node, 1, "the rank")
    if dims[:1] != (1,):
        return Refusal(
            f"the batch of its second operand is {dims[0] if dims else 'missing'}",
            "a batch of 1",
            "export the model with that operand as one image",
        )
    return w.Expand(w.x[1], [w.size(w.x[0], 0), *[1] * (len(dims) - 1)])


def _leaky_relu(w: Writer, dtype: str) -> Value | Refusal:
    given = settings(w.node, negSlope=float)
    if isinstance(given, Refusal):
        return given
    return w.LeakyRelu(w.x[0], alpha=float(given["negSlope"]))


def _clip(w: Writer, dtype: str) -> Value | Refusal:
    given = settings(w.node, clipMin=float, clipMax=float)
    if isinstance(given, Refusal):
        return given
    return w.clip(w.x[0], float(given["clipMin"]), float(given["clipMax"]), dtype)


def _gelu(w: Writer, dtype: str) -> Value | Refusal:
    given = settings(w.node, type_id=0, bias=_NONE)
    if isinstance(given, Refusal):
        return given
    data = wide(w, w.x[0], dtype)
    shifted = w.Add(data, given["bias"]) if given["bias"].size else data
    return narrow(w, fast_gelu(w, shifted, "float32"), dtype)


_BODIES: Mapping[str, tuple[Body, str]] = {
    "Normalize_TRT": (_normalize, "a sum of squares and a quotient"),
    "Reorg_TRT": (_reorg, "SpaceToDepth in Darknet's order"),
    "CoordConvAC": (_coordinates, "Concat with constant coordinates"),
    "BatchTilePlugin_TRT": (_tile, "Expand"),
    "LReLU_TRT": (_leaky_relu, "LeakyRelu"),
    "Clip_TRT": (_clip, "Clip"),
    "CustomGeluPluginDynamic": (_gelu, "GELU by tanh"),
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    body, what = _BODIES[node.op_type]
    w = Writer(node)
    made = body(w, str(node.dtype(0)))
    return made if isinstance(made, Refusal) else Replacement(w.finish(made), what)


STOCK_LEGACY_LAYERS = NodeRule(
    "stock-legacy-layers",
    "plugins of old releases of TensorRT become standard operators",
    kinds(*_BODIES),
    checked(
        {**dict.fromkeys(_BODIES, PluginPorts()), "BatchTilePlugin_TRT": PluginPorts(2, floats=())}, _rewrite
    ),
)
