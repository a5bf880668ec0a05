"""Rewrites plugins that enlarge images as Resize.

Sources:
- NVIDIA/TensorRT, release 8.6, plugin/resizeNearestPlugin/resizeNearestPlugin.cpp and common/kernels/maskRCNNKernels.cu:
  pixel int(place / scale), of floor(size * scale) in each direction.
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/bicubic_interpolate/trt_bicubic_interpolate{.cpp,_kernel.cu}:
  PyTorch's bicubic interpolation (a = -0.75); sizes grow by whole factors, and fractions of a factor are cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

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

_OPSET = 11
"""The first one whose Resize says where pixels are."""

_NONE = np.zeros(0, np.float32)

_NAMES = ("ResizeNearest_TRT", "TRTBicubicInterpolate")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype, dims = str(node.dtype(0)), node.shape(0)
    if dims is None or len(dims) != 4:
        return unknown(node, 0, "the rank")
    if node.opset < _OPSET:
        return too_old(node, _OPSET, "Resize")
    if node.op_type == "TRTBicubicInterpolate":
        return _bicubic(node, dtype, dims)
    given = settings(node, scale=float)
    if isinstance(given, Refusal):
        return given
    if given["scale"] <= 0:
        return Refusal(f"its scale is {given['scale']}", "a scale above 0", "correct the attribute 'scale'")
    w = Writer(node)
    scales = np.array([1, 1, given["scale"], given["scale"]], np.float32)
    words = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return Replacement(
        w.finish(narrow(w, w.Resize(wide(w, w.x[0], dtype), _NONE, scales, mode="nearest", **words), dtype)),
        "Resize to the nearest pixel",
    )


def _bicubic(node: NodeView, dtype: str, dims: Sequence[int | None]) -> Replacement | Refusal:
    given = settings(node, scale_factor=_NONE, align_corners=1)
    if isinstance(given, Refusal):
        return given
    factors, aligned = given["scale_factor"], bool(given["align_corners"])
    if factors.size != 2 or (factors < 1).any() or (factors % 1).any():
        return Refusal(
            f"its scale_factor is {factors.tolist()}",
            "two whole factors: mmdeploy's plugin cuts fractions off, which PyTorch does not",
            "export Resize instead: without mmdeploy's rewriter of torch.nn.functional.interpolate",
        )
    if aligned and any(dim == 1 and factor == 1 for dim, factor in zip(dims[2:], factors, strict=True)):
        return Refusal(
            "corners are aligned along an axis of one pixel that stays one pixel",
            "images of at least two pixels each way",
            "export the model with align_corners = 0",
        )
    w = Writer(node)
    scales = np.concatenate([np.ones(2, np.float32), factors])
    where = "align_corners" if aligned else "pytorch_half_pixel"
    resized = w.Resize(
        wide(w, w.x[0], dtype),
        _NONE,
        scales,
        mode="cubic",
        coordinate_transformation_mode=where,
        cubic_coeff_a=-0.75,
    )
    return Replacement(w.finish(narrow(w, resized, dtype)), "cubic Resize")


STOCK_RESIZES = NodeRule(
    "stock-resizes",
    "plugins that enlarge images become Resize",
    kinds(*_NAMES, domains=("mmdeploy",)),
    checked(dict.fromkeys(_NAMES, PluginPorts()), _rewrite),
    opset=_OPSET,
)
