"""Rewrites what mmdeploy and mmcv compute around detection heads: anchors, the best candidates, running maxima.

Sources:
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/gather_topk/gather_topk{.cpp,_kernel.cu}: the indices' axes but the
  last are the data's batch.
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/grid_priors/trt_grid_priors{.cpp,_kernel.cu}: base anchors moved to
  each place of a feature map, whose sizes are the lengths of two operands; rows, then columns, then anchors.
- open-mmlab/mmcv 1.x, mmcv/ops/corner_pool.py and mmcv/ops/csrc/tensorrt/plugins/trt_corner_pool_kernel.cu: the maximum of
  a row or column up to each place, modes 0 to 3 for top, bottom, left, right. Law and Deng, arXiv 1808.01244.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    too_old,
    wide,
)

_GATHER_BATCHES = 12
"""The first opset whose GatherND knows batches."""

_TOP, _BOTTOM, _LEFT, _RIGHT = range(4)


def _gather_topk(node: NodeView) -> Replacement | Refusal | None:
    given, rank = settings(node), node.rank(1)
    if isinstance(given, Refusal):
        return given
    if not rank:
        return unknown(node, 1, "the rank")
    if node.opset < _GATHER_BATCHES:
        return too_old(node, _GATHER_BATCHES, "GatherND with batches")
    w = Writer(node)
    indices = w.Unsqueeze(w.x[1] if node.dtype(1) == "int64" else w.Cast(w.x[1], to="int64"), axes=[-1])
    return Replacement(w.finish(w.GatherND(w.x[0], indices, batch_dims=rank - 1)), "GatherND")


def _grid_priors(node: NodeView) -> Replacement | Refusal | None:
    given, dtype = settings(node, stride_h=1, stride_w=1), str(node.dtype(0))
    if isinstance(given, Refusal):
        return given
    if node.opset < _GATHER_BATCHES:
        return too_old(node, _GATHER_BATCHES, "Range")
    w = Writer(node)
    shifts = []
    places = (
        (w.x[1], given["stride_h"], [-1, 1, 1, 1], [0, 1, 0, 1]),
        (w.x[2], given["stride_w"], [1, -1, 1, 1], [1, 0, 1, 0]),
    )
    for operand, stride, order, corners in places:
        steps = w.Mul(w.arange(w.shape(operand)), stride)
        column = w.Reshape(w.Cast(steps, to="float32"), shape=order)
        shifts.append(w.Mul(column, np.array(corners, np.float32)))
    anchors = w.Add(wide(w, w.x[0], dtype), w.Add(*shifts))
    return Replacement(
        w.finish(narrow(w, w.Reshape(anchors, shape=[-1, 4]), dtype)), "sums of anchors and places"
    )


def _corner_pool(node: NodeView) -> Replacement | Refusal | None:
    given, dtype, dims = settings(node, mode=int), str(node.dtype(0)), node.shape(0)
    if isinstance(given, Refusal):
        return given
    mode = given["mode"]
    if mode not in (_TOP, _BOTTOM, _LEFT, _RIGHT):
        return Refusal(
            f"its mode is {mode}",
            "0 (top), 1 (bottom), 2 (left) or 3 (right)",
            "export the node with one of these",
        )
    axis = 0 if mode in (_TOP, _BOTTOM) else 1
    size = dims[2 + axis] if dims is not None and len(dims) == 4 else None
    if not size:
        return unknown(node, 0, "a spatial size")
    w = Writer(node)
    kernel, pads = [1, 1], [0, 0, 0, 0]
    kernel[axis] = size
    pads[axis + (2 if mode in (_TOP, _LEFT) else 0)] = size - 1
    if dtype == "bfloat16":  # which MaxPool knows from opset 22 on
        result = narrow(w, w.MaxPool(wide(w, w.x[0], dtype), kernel_shape=kernel, pads=pads), dtype)
    else:
        result = w.MaxPool(w.x[0], kernel_shape=kernel, pads=pads)
    return Replacement(w.finish(result), "MaxPool, padded at one side")


_BODIES: Mapping[str, Callable[[NodeView], Replacement | Refusal | None]] = {
    "GatherTopk": _gather_topk,
    "GridPriorsTRT": _grid_priors,
    "MMCVCornerPool": _corner_pool,
}
_PORTS = {
    "GatherTopk": PluginPorts(2, floats=()),
    "GridPriorsTRT": PluginPorts(3),
    "MMCVCornerPool": PluginPorts(),
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    return _BODIES[node.op_type](node)


STOCK_DETECTION_HEADS = NodeRule(
    "stock-detection-heads",
    "mmdeploy's GatherTopk and GridPriorsTRT and mmcv's corner pooling become GatherND, sums and MaxPool",
    kinds(*_BODIES, domains=("mmdeploy", "mmcv")),
    checked(_PORTS, _rewrite),
    opset=_GATHER_BATCHES,
)
