"""Rewrites plugins of old TensorRT releases and of its demo/Diffusion as standard operators.

Source: NVIDIA/TensorRT, release 8.6, under plugin/:
- normalizePlugin and common/kernels/normalizeLayer.cu: x / sqrt(sum of x^2 + eps) * scale, the sum over the channels of a
  pixel or, with acrossSpatial, over an image; with acrossSpatial and a scale for each channel the kernel divides by it.
- reorgPlugin and common/kernels/reorgForward.cu: Darknet's order, in which the input counts as [N, C / s^2, H s, W s].
- coordConvACPlugin/coordConvACPluginKernels.cu: two channels behind the input, each row's and each column's place from -1
  to 1; the kernel mixes up rows and columns of images that are not square.
- flattenConcat: images [N, C, H, W] flattened and one behind the other, [N, sum, 1, 1]; other axes than 1 mix up images.
- specialSlicePlugin: the corners of Mask R-CNN's detections [N, R, 6].
- gridAnchorPlugin and common/kernels/gridAnchorLayer.cu: TensorFlow's SSD anchors and variances of each feature map,
  [N, 2, 4 H W anchors, 1]; the first map has three anchors, at a tenth and twice the least size, and every other one more,
  between its own size and the next one's.
- batchTilePlugin: the second operand, of batch 1, as often as the first one has images.
- AliasWithName is Caffe2's (caffe2/operators/alias_with_name.h): its operand under another name.
- Mish_TRT of tensorrtx and its kin (mish.cu): x tanh(log(1 + e^x)).
- leakyReluPlugin, clipPlugin, geluPlugin (GELU by tanh, behind an optional bias).

shouxieai/tensorRT_Pro, src/tensorRT/onnxplugin/plugins/HSwish.cu and HSigmoid.cu: x clipped to -3..3, plus 3, over 6; HSwish
multiplies it by x.

Pointwise plugins that demo/Diffusion inserted: NVIDIA/TensorRT, release 8.5, demo/Diffusion/models.py, and under plugin/:
- layerNormPlugin/layerNormPlugin.cpp: `epsilon` and the first `axis` of those that are normalised, -1 where it is absent;
  NVIDIA/trt-samples-for-hackathon-cn and scripts after it write one operand, without a scale or a bias;
- splitGeLUPlugin/splitGeLUPlugin.cpp and splitGeLUKernel.cu: the left half of the last axis times the GELU of the right one,
  with 1.4140625 for the root of 2;
- seqLen2SpatialPlugin/seqLen2SpatialPlugin.cpp: [B, H * W, C] plus a bias and a residual, as [B, C, H, W]; the sizes are
  those of the fourth operand. Hidden sizes other than those of that network are right here, too.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import fast_gelu, layer_norm
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    CAFFE2,
    PluginForm,
    kinds,
    narrow,
    rewriter,
    settings,
    wide,
)

_ROOT_OF_TWO = 1.4140625


def _layer_norm(w: Writer, dtype: str) -> Value | Refusal:
    node = w.node
    given, rank = settings(node, epsilon=1e-5, axis=-1), node.rank(0)
    axis = given["axis"]
    if len(node.inputs) == 2:
        return Refusal("it has a scale and no bias", "both or neither", "give the node a bias of zeros")
    if axis != -1 and (rank is None or axis != rank - 1):
        return Refusal(
            f"it normalizes all axes from {axis} on, of {rank or 'an unknown number of'} dimensions",
            "only the last axis",
            "flatten the normalized axes before the node",
        )
    data = wide(w, 0)
    if len(w.x) == 3:
        scale, shift = wide(w, 1), wide(w, 2)
        return narrow(w, layer_norm(w, data, scale, shift, "float32", default=1e-5), dtype)
    centred = w.Sub(data, w.reduce("ReduceMean", data, [-1]))
    variance = w.reduce("ReduceMean", w.Mul(centred, centred), [-1])
    return narrow(w, w.Div(centred, w.Sqrt(w.Add(variance, float(given["epsilon"])))), dtype)


def _split_gelu(w: Writer, dtype: str) -> Value | Refusal:
    settings(w.node)
    dims = w.node.shape(0)
    size = dims[-1] if dims else None
    if not size:
        return w.node.unknown(0, "the last size")
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
    "LayerNorm": PluginForm(_layer_norm, "LayerNormalization", most=3),
    "SplitGeLU": PluginForm(_split_gelu, "Split, Erf and products"),
    "SeqLen2Spatial": PluginForm(_to_spatial, "sums and Transpose", 4, floats=(0, 1, 2), alike=True),
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
        return w.node.unknown(0, "the rank")
    _, channels, height, width = dims
    if channels is None or height is None or width is None:
        return w.node.unknown(0, "a size")
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
        return w.node.unknown(0, "a spatial size")
    if height != width or height < 2:
        return Refusal(
            f"its images are {height}x{width}: TensorRT's plugin mixes up rows and columns of such images",
            "square images of at least 2x2",
            "concatenate the coordinates by standard operators where the model is made",
        )
    w.expect(f"coordinates of {height:,} x {width:,}", nbytes=8 * height * width)
    line = np.arange(height, dtype=np.float32) * np.float32(2 / (height - 1)) - 1
    plane = np.stack(np.meshgrid(line, line, indexing="ij"))[None]
    batch = w.Concat(w.size(w.x[0], 0), [1, 1, 1], axis=0)
    return w.Concat(w.x[0], w.Cast(w.Expand(plane, batch), to=dtype), axis=1)


def _tile(w: Writer, dtype: str) -> Value | Refusal:
    settings(w.node)
    dims = w.node.known_shape(1)
    if dims[:1] != (1,):
        return Refusal(
            f"the batch of its second operand is {dims[0] if dims else 'missing'}",
            "a batch of 1",
            "export the model with that operand as one image",
        )
    return w.Expand(w.x[1], [w.size(w.x[0], 0), *[1] * (len(dims) - 1)])


def _flatten(w: Writer, dtype: str) -> Value | Refusal:
    given = settings(w.node, axis=1, ignoreBatch=0)
    if given["axis"] != 1 or given["ignoreBatch"]:
        return Refusal(
            f"its axis is {given['axis']}, and ignoreBatch {given['ignoreBatch']}",
            "axis = 1 and ignoreBatch = 0",
            "write Reshape and Concat where the model is made",
        )
    return w.Concat(*(w.Reshape(part, shape=[0, -1, 1, 1]) for part in w.x), axis=1)


def _corners(w: Writer, dtype: str) -> Value:
    settings(w.node)
    return w.slice(w.x[0], [0], [4], [2])


def _anchors(w: Writer, dtype: str) -> Replacement | Refusal:
    given = settings(
        w.node,
        minSize=0.2,
        maxSize=0.95,
        aspectRatios=_NONE,
        featureMapShapes=list,
        variance=_NONE,
        numLayers=6,
    )
    count, ratios, shapes = given["numLayers"], given["aspectRatios"], np.array(given["featureMapShapes"])
    maps = shapes.reshape(-1, 2) if w.node.op_type == "GridAnchorRect_TRT" else np.stack([shapes] * 2, 1)
    if count < 2 or len(maps) != count or ratios.size < 3 or given["variance"].size != 4:
        return Refusal(
            f"it has {count} layers, {len(maps)} shapes, {ratios.size} ratios and {given['variance'].size} variances",
            "two layers or more, a shape for each, three ratios or more, and four variances",
            "correct the attributes where the node is made",
        )
    sizes = np.linspace(given["minSize"], given["maxSize"], count).astype(np.float32)
    following = np.sqrt(sizes * np.append(sizes[1:], np.float32(1)))
    batch = w.Concat(w.size(w.x[0], 0), [1, 1, 1], axis=0)
    results = []
    for layer, (height, width) in enumerate(maps.tolist()):
        w.expect(
            f"anchors of a map of {height:,} x {width:,}", nbytes=32 * (len(ratios) + 1) * height * width
        )
        own = [0.1, *[sizes[0]] * 2] if not layer else [*[sizes[layer]] * len(ratios), following[layer]]
        scales = np.array(own, np.float32)
        roots = np.sqrt(ratios[:3] if not layer else np.append(ratios, np.float32(1)))
        half = np.stack([scales * roots, scales / roots], 1) / 2
        y, x = ((np.arange(size, dtype=np.float32) + np.float32(0.5)) / size for size in (height, width))
        middles = np.stack(np.broadcast_arrays(x, y[:, None]), -1)[:, :, None]
        boxes = np.concatenate([middles - half, middles + half], -1).reshape(-1)
        both = np.stack([boxes, np.tile(given["variance"], boxes.size // 4)]).astype(np.float32)
        results.append(w.Expand(both[None, :, :, None], batch))
    return Replacement(w.finish(*results), "constant anchors")


def _mish(w: Writer, dtype: str) -> Value:
    settings(w.node)
    data = wide(w, 0)
    return narrow(w, w.Mul(data, w.Tanh(w.Softplus(data))), dtype)


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
    "AliasWithName": PluginForm(_alias, "Identity", floats=()),
    "Normalize_TRT": PluginForm(_normalize, "a sum of squares and a quotient"),
    "Reorg_TRT": PluginForm(_reorg, "SpaceToDepth in Darknet's order"),
    "CoordConvAC": PluginForm(_coordinates, "Concat with constant coordinates"),
    "BatchTilePlugin_TRT": PluginForm(_tile, "Expand", 2, floats=()),
    "FlattenConcat_TRT": PluginForm(_flatten, "Reshape and Concat", most=64, floats=()),
    "SpecialSlice_TRT": PluginForm(_corners, "Slice"),
    **dict.fromkeys(("GridAnchor_TRT", "GridAnchorRect_TRT"), PluginForm(_anchors, floats=(), results=64)),
    "Mish_TRT": PluginForm(_mish, "Softplus, Tanh and a product"),
    "LReLU_TRT": PluginForm(_leaky_relu, "LeakyRelu"),
    "Clip_TRT": PluginForm(_clip, "Clip"),
    "CustomGeluPluginDynamic": PluginForm(_gelu, "GELU by tanh"),
    "HSigmoid": PluginForm(_hard_sigmoid, "HardSigmoid"),
    "HSwish": PluginForm(_hard_swish, "HardSigmoid and a product"),
}

STOCK_LEGACY_LAYERS = NodeRule(
    "stock-legacy-layers",
    "plugins of old releases of TensorRT and of tensorRT_Pro, and Caffe2's alias, become standard operators",
    kinds(*_LAYERS, domains=(CAFFE2,)),
    rewriter(_LAYERS),
)
