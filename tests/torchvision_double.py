"""Stands in for torchvision's operators where it is not installed: its schemas, with our references as kernels.

The schemas are those of torchvision 0.24 (torchvision/csrc/ops). Where torchvision is installed, its own operators are used.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from trtsmith.importers.ops.regions._region_geometry import AVERAGE
from trtsmith.importers.registry import by_name

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "ps_roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
}


def _nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    boxes = dets.double().numpy()
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    for one in np.argsort(-scores.numpy(), kind="stable"):
        low = np.maximum(boxes[one, :2], boxes[kept, :2])
        high = np.minimum(boxes[one, 2:], boxes[kept, 2:])
        common = np.clip(high - low, 0, None).prod(axis=1)
        if not (common / (area[one] + area[kept] - common) > iou_threshold).any():
            kept.append(int(one))
    return torch.tensor(kept, dtype=torch.int64)


def _of(op: str, x: Any, fields: dict[str, Any], **inputs: Any) -> Any:
    """What the definition's reference gives, which tests/importers holds to oracles."""
    arrays = {name: array.double().numpy() for name, array in {"x": x, **inputs}.items()}
    (output,) = by_name()[op].reference(fields, arrays).values()
    return torch.from_numpy(np.ascontiguousarray(output)).to(x.dtype)


def _roi_align(x: Any, rois: Any, scale: float, rows: int, columns: int, ratio: int, aligned: bool) -> Any:
    fields = {"output_height": rows, "output_width": columns, "spatial_scale": scale, "sampling_ratio": ratio}
    return _of("RegionAlign", x, {**fields, "aligned": int(aligned), "pooling": AVERAGE}, rois=rois)


def _ps_roi_align(x: Any, rois: Any, scale: float, rows: int, columns: int, ratio: int) -> Any:
    whole = _roi_align(x, rois, scale, rows, columns, ratio, True)
    channels = x.shape[1] // (rows * columns)
    read = torch.arange(x.shape[1]).reshape(1, channels, rows, columns)
    picked = torch.gather(whole, 1, read.expand(len(rois), -1, -1, -1))
    return picked, read.expand_as(picked).int().contiguous()


def _deform_conv2d(x: Any, weight: Any, offset: Any, mask: Any, bias: Any, *numbers: Any) -> Any:
    sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask = numbers
    fields = {"stride": (sh, sw), "padding": (ph, pw, ph, pw), "dilation": (dh, dw), "groups": groups}
    inputs = {"offset": offset, "weight": weight, "bias": bias, **({"mask": mask} if use_mask else {})}
    name = "ModulatedDeformableConvolution" if use_mask else "DeformableConvolution"
    return _of(name, x, fields | {"offset_groups": offset_groups}, **inputs)


def _out_size(size: Any, pad: int, dilation: int, kernel: int, stride: int) -> Any:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def _fake_deform(x: Any, weight: Any, offset: Any, mask: Any, bias: Any, *numbers: Any) -> Any:
    sh, sw, ph, pw, dh, dw = numbers[:6]
    height = _out_size(x.shape[2], ph, dh, weight.shape[2], sh)
    width = _out_size(x.shape[3], pw, dw, weight.shape[3], sw)
    return x.new_empty((x.shape[0], weight.shape[0], height, width))


def _fake_ps(x: Any, rois: Any, scale: float, rows: int, columns: int, ratio: int) -> Any:
    shape = (rois.shape[0], x.shape[1] // (rows * columns), rows, columns)
    return x.new_empty(shape), x.new_empty(shape, dtype=torch.int32)


_KERNELS = {
    "nms": (
        _nms,
        lambda d, s, t: d.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int64),
    ),
    "roi_align": (_roi_align, lambda x, r, s, h, w, n, a: x.new_empty((r.shape[0], x.shape[1], h, w))),
    "ps_roi_align": (_ps_roi_align, _fake_ps),
    "deform_conv2d": (_deform_conv2d, _fake_deform),
}


def _define() -> torch.library.Library:
    library = torch.library.Library("torchvision", "DEF")
    for name, (kernel, fake) in _KERNELS.items():
        library.define(name + _SCHEMAS[name])
        library.impl(name, kernel, "CPU")
        torch.library.register_fake(f"torchvision::{name}", fake, lib=library)
    return library


if find_spec("torchvision") is None:
    LIBRARY = _define()
else:
    import torchvision  # noqa: F401  which registers its own
