"""Rewrites operators of mmdeploy and mmcv for detection heads and PSANet: anchors, best candidates, masks.

Sources:
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/gather_topk/gather_topk{.cpp,_kernel.cu}: the indices' axes but the
  last are the data's batch.
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/grid_priors/trt_grid_priors{.cpp,_kernel.cu}: base anchors moved to
  each place of a feature map, whose sizes are the lengths of two operands; rows, then columns, then anchors.
- open-mmlab/mmcv 1.x, mmcv/ops/corner_pool.py and mmcv/ops/csrc/tensorrt/plugins/trt_corner_pool_kernel.cu: the maximum of
  a row or column up to each place, modes 0 to 3 for top, bottom, left, right. Law and Deng, arXiv 1808.01244.
- open-mmlab/mmcv 1.x, mmcv/onnx/symbolic.py: torch.cummax and torch.cummin, which CornerNet's export has; of equal elements
  the index is that of the last, as in PyTorch (the TensorRT plugin takes the first). NaNs are not passed on.

Masks and the convolution of masked pixels, both of open-mmlab/mmcv 1.x and 2.x:
- mmcv/ops/psa_mask.py and mmcv/ops/csrc/common/cuda/psamask_cuda_kernel.cuh: a mask around each pixel is laid out over the
  whole map, type 0 (collect) with a channel for each pixel that is looked at, type 1 (distribute) for each that looks.
  Zhao et al., PSANet, ECCV 2018.
- mmcv/ops/masked_conv.py: a convolution of stride 1 where the mask is above 0, zero where it is not. Its output has as many
  pixels as the mask has; for another padding it would write outside of the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, Refusal, Replacement
from trtsmith.converter.rewrite.engine.refusing import RefusedError
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)

_COLLECT, _DISTRIBUTE = range(2)


def _pair(value: Any, name: str, least: int = 0) -> tuple[int, int]:
    """(height, width) from one number or two. Raises RefusedError for other values."""
    found = value if isinstance(value, list) else [value, value]
    if len(found) == 2 and all(isinstance(one, int) and one >= least for one in found):
        return found[0], found[1]
    raise RefusedError(
        f"its {name} is {value}",
        f"one or two whole numbers, {least} or more",
        f"export the node with such a {name}",
    )


def _psa_mask(w: Writer, dtype: str) -> Value | Refusal:
    given, dims = settings(w.node, psa_type=int, mask_size=object), w.node.shape(0)
    kind, size = given["psa_type"], _pair(given["mask_size"], "mask_size", 1)
    if kind not in (_COLLECT, _DISTRIBUTE):
        return Refusal(
            f"its psa_type is {kind}", "0 (collect) or 1 (distribute)", "export the node with one of these"
        )
    if dims is None or len(dims) != 4 or None in dims[1:]:
        return w.node.unknown(0, "the number of channels, or a spatial size")
    channels, height, width = (dim or 0 for dim in dims[1:])
    if channels != size[0] * size[1]:
        return Refusal(
            f"its input has {channels} channels, and its mask_size is {list(size)}",
            f"{size[0] * size[1]} channels, one for each cell of the mask",
            "correct mask_size where the model is exported",
        )
    cells = w.Reshape(w.x[0], shape=[0, *size, height, width])
    along = _unskewed(w, w.Transpose(cells, perm=[0, 2, 4, 3, 1]), height, size[0], [size[1], width])
    across = _unskewed(w, w.Transpose(along, perm=[0, 3, 4, 2, 1]), width, size[1], [height, height])
    # [N, row, row looked at, column, column looked at]
    order = [0, 2, 4, 1, 3] if kind == _COLLECT else [0, 1, 3, 2, 4]
    return w.Reshape(w.Transpose(across, perm=order), shape=[0, height * width, height, width])


def _unskewed(w: Writer, data: Value, places: int, cells: int, outer: list[int]) -> Value:
    """Turns masks around each place, [N, *outer, places, cells], into [N, *outer, places, places], zero beyond the mask.

    Rows that are filled up and then read as if they were one shorter move one further from each row to the next.
    """
    half, length = (cells - 1) // 2, cells + places
    flat = w.Reshape(w.pad(data, [0] * 9 + [places]), shape=[0, *outer, places * length])
    cut = w.slice(flat, [0], [places * (length - 1)], [3])
    moved = w.Reshape(cut, shape=[0, *outer, places, length - 1])
    return w.slice(moved, [half], [half + places], [4])


def _masked_conv(w: Writer, dtype: str) -> Value | Refusal:
    node = w.node
    given, kernel = settings(node, padding=object, stride=object), node.shape(2)
    padding, stride = _pair(given["padding"], "padding"), _pair(given["stride"], "stride", 1)
    if kernel is None or len(kernel) != 4 or None in kernel[2:]:
        return node.unknown(2, "the size of the kernel")
    sides = [int(side or 0) for side in kernel[2:]]
    if stride != (1, 1) or any(2 * pad != side - 1 for pad, side in zip(padding, sides, strict=True)):
        return Refusal(
            f"its stride is {list(stride)} and its padding {list(padding)}, for a kernel of {sides}",
            "a stride of 1 and as many pixels as the mask has: a padding of half the kernel, which is odd",
            "export the node with these",
        )
    batches = [dims[0] for dims in (node.shape(0), node.shape(1)) if dims]
    if any(batch not in (1, None) for batch in batches):
        return Refusal(
            f"the batch has {batches} images and masks",
            "one image and one mask",
            "export the model for a batch of 1",
        )
    mask = w.x[1] if node.dtype(1) == "bool" else w.Greater(w.Cast(w.x[1], to="float32"), 0.0)
    operands = [wide(w, i) if dtype == "bfloat16" else w.x[i] for i in (0, 2, 3)]
    computed = "float32" if dtype == "bfloat16" else dtype
    whole = w.Conv(*operands, pads=[*padding, *padding])
    kept = w.Where(w.Unsqueeze(mask, axes=[0]), whole, w.number(0, computed))
    return narrow(w, kept, dtype) if computed != dtype else kept


_MASKS = {
    "MMCVPSAMask": PluginForm(_psa_mask, "Pad, Reshape and Slice"),
    "MMCVMaskedConv2d": PluginForm(_masked_conv, "Conv and Where", 4, floats=(0, 2, 3), alike=True),
}

STOCK_MASKS = NodeRule(
    "stock-masks",
    "mmcv's attention masks and masked convolution become Pad and Slice, and Conv and Where",
    kinds(*_MASKS, domains=("mmdeploy", "mmcv")),
    rewriter(_MASKS),
    opset=11,
)


_GATHER_BATCHES = 12
"""The first opset whose GatherND knows batches."""

_TOP, _BOTTOM, _LEFT, _RIGHT = range(4)


def _gather_topk(w: Writer, dtype: str) -> Value | Refusal:
    node = w.node
    settings(node)
    rank = node.rank(1)
    if not rank:
        return node.unknown(1, "the rank")
    require_opset(node, _GATHER_BATCHES, "GatherND with batches")
    indices = w.Unsqueeze(w.x[1] if node.dtype(1) == "int64" else w.Cast(w.x[1], to="int64"), axes=[-1])
    return w.GatherND(w.x[0], indices, batch_dims=rank - 1)


def _grid_priors(w: Writer, dtype: str) -> Value:
    given = settings(w.node, stride_h=1, stride_w=1)
    require_opset(w.node, _GATHER_BATCHES, "Range")
    shifts = []
    places = (
        (w.x[1], given["stride_h"], [-1, 1, 1, 1], [0, 1, 0, 1]),
        (w.x[2], given["stride_w"], [1, -1, 1, 1], [1, 0, 1, 0]),
    )
    for operand, stride, order, corners in places:
        steps = w.Mul(w.arange(w.shape(operand)), stride)
        column = w.Reshape(w.Cast(steps, to="float32"), shape=order)
        shifts.append(w.Mul(column, np.array(corners, np.float32)))
    anchors = w.Add(wide(w, 0), w.Add(*shifts))
    return narrow(w, w.Reshape(anchors, shape=[-1, 4]), dtype)


def _corner_pool(w: Writer, dtype: str) -> Value | Refusal:
    mode, dims = settings(w.node, mode=int)["mode"], w.node.shape(0)
    if mode not in (_TOP, _BOTTOM, _LEFT, _RIGHT):
        return Refusal(
            f"its mode is {mode}",
            "0 (top), 1 (bottom), 2 (left) or 3 (right)",
            "export the node with one of these",
        )
    axis = 0 if mode in (_TOP, _BOTTOM) else 1
    size = dims[2 + axis] if dims is not None and len(dims) == 4 else None
    if not size:
        return w.node.unknown(0, "a spatial size")
    kernel, pads = [1, 1], [0, 0, 0, 0]
    kernel[axis] = size
    pads[axis + (2 if mode in (_TOP, _LEFT) else 0)] = size - 1
    if dtype == "bfloat16":  # which MaxPool knows from opset 22 on
        return narrow(w, w.MaxPool(wide(w, 0), kernel_shape=kernel, pads=pads), dtype)
    return w.MaxPool(w.x[0], kernel_shape=kernel, pads=pads)


def _running_extreme(w: Writer, dtype: str) -> Replacement | Refusal:
    """Rewrites cummax and cummin as comparisons with earlier elements, at distances that double."""
    dim, dims = settings(w.node, dim=int)["dim"], w.node.shape(0)
    if not dims:
        return w.node.unknown(0, "the rank")
    if not -len(dims) <= dim < len(dims):
        return Refusal(f"dim = {dim}", f"an axis of {len(dims)}", "correct 'dim'")
    axis = dim % len(dims)
    size = dims[axis]
    if size is None:
        return w.node.unknown(0, "a size")
    values, line = w.x[0], np.arange(size).reshape([-1 if each == axis else 1 for each in range(len(dims))])
    places = w.Expand(line, w.shape(values))
    beats = w.Greater if w.node.op_type == "cummax" else w.Less
    step = 1
    while step < size:
        (before, own), (before_places, own_places) = (
            (w.slice(part, [0], [size - step], [axis]), w.slice(part, [step], [size], [axis]))
            for part in (values, places)
        )
        taken = beats(before, own)
        values, places = (
            w.Concat(w.slice(part, [0], [step], [axis]), w.Where(taken, *pair), axis=axis)
            for part, pair in ((values, (before, own)), (places, (before_places, own_places)))
        )
        step *= 2
    return Replacement(w.finish(values, places), "comparisons with elements before")


_HEADS = {
    **dict.fromkeys(("cummax", "cummin"), PluginForm(_running_extreme, results=2)),
    "GatherTopk": PluginForm(_gather_topk, "GatherND", 2, floats=()),
    "GridPriorsTRT": PluginForm(_grid_priors, "sums of anchors and places", 3),
    "MMCVCornerPool": PluginForm(_corner_pool, "MaxPool, padded at one side"),
}

STOCK_DETECTION_HEADS = NodeRule(
    "stock-detection-heads",
    "mmdeploy's GatherTopk and GridPriorsTRT and mmcv's corner pooling and cummax become GatherND, sums and MaxPool",
    kinds(*_HEADS, domains=("mmdeploy", "mmcv")),
    rewriter(_HEADS),
    opset=_GATHER_BATCHES,
)
