"""torchvision's operators for tests, where torchvision itself is not installed: its schemas, with slow kernels of our own.

The schemas are those of torchvision 0.24 (torchvision/csrc/ops). Where torchvision is installed, its own operators are used.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

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


def _sample(plane: np.ndarray, y: float, x: float) -> np.ndarray:
    """plane: [..., H, W] at a place between pixels; nothing is farther out than a pixel."""
    height, width = plane.shape[-2:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(plane.shape[:-2])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    rows = [plane[..., row, left] * (1 - dx) + plane[..., row, right] * dx for row in (top, below)]
    return np.asarray(rows[0] * (1 - dy) + rows[1] * dy)


def _pool(
    x: Any, rois: Any, scale: float, rows: int, columns: int, ratio: int, shift: float, at_least: float
) -> Any:
    """[K, C, rows, columns]: averages of samples in each bin."""
    maps, regions = x.double().numpy(), rois.double().numpy()
    out = np.zeros((len(regions), maps.shape[1], rows, columns))
    for k, (image, x1, y1, x2, y2) in enumerate(regions):
        left, top = x1 * scale - shift, y1 * scale - shift
        width, height = max(x2 * scale - shift - left, at_least), max(y2 * scale - shift - top, at_least)
        for i, j in np.ndindex(rows, columns):
            count_y = ratio if ratio > 0 else int(np.ceil(height / rows))
            count_x = ratio if ratio > 0 else int(np.ceil(width / columns))
            for a, b in np.ndindex(count_y, count_x):
                place = (
                    top + (i + (a + 0.5) / count_y) * height / rows,
                    left + (j + (b + 0.5) / count_x) * width / columns,
                )
                out[k, :, i, j] += _sample(maps[int(image)], *place) / max(count_y * count_x, 1)
    return torch.from_numpy(out).to(x.dtype)


def _roi_align(x: Any, rois: Any, scale: float, rows: int, columns: int, ratio: int, aligned: bool) -> Any:
    return _pool(x, rois, scale, rows, columns, ratio, 0.5 if aligned else 0.0, -np.inf if aligned else 1.0)


def _ps_roi_align(x: Any, rois: Any, scale: float, rows: int, columns: int, ratio: int) -> Any:
    whole = _pool(x, rois, scale, rows, columns, ratio, 0.5, -np.inf)
    channels = x.shape[1] // (rows * columns)
    read = torch.arange(x.shape[1]).reshape(1, channels, rows, columns)
    picked = torch.gather(whole, 1, read.expand(len(rois), -1, -1, -1))
    return picked, read.expand_as(picked).int().contiguous()


def _deform_conv2d(x: Any, weight: Any, offset: Any, mask: Any, bias: Any, *numbers: Any) -> Any:
    sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask = numbers
    maps, shifts = x.double().numpy(), offset.double().numpy()
    count, channels = maps.shape[:2]
    filters, per_group, kh, kw = weight.shape
    rows, columns = shifts.shape[2:]
    taken = np.zeros((count, channels, kh * kw, rows, columns))
    share = channels // offset_groups
    for n, g, k, i, j in np.ndindex(count, offset_groups, kh * kw, rows, columns):
        place = 2 * (g * kh * kw + k)
        y = i * sh - ph + (k // kw) * dh + shifts[n, place, i, j]
        z = j * sw - pw + (k % kw) * dw + shifts[n, place + 1, i, j]
        part = slice(g * share, (g + 1) * share)
        value = _inside(maps[n, part], y, z)
        taken[n, part, k, i, j] = value * (float(mask[n, g * kh * kw + k, i, j]) if use_mask else 1.0)
    parts = taken.reshape(count, groups, per_group * kh * kw, rows * columns)
    split = weight.double().numpy().reshape(groups, filters // groups, per_group * kh * kw)
    out = np.einsum("gfk,ngkp->ngfp", split, parts).reshape(count, filters, rows, columns)
    return torch.from_numpy(out + bias.double().numpy()[:, None, None]).to(x.dtype)


def _inside(plane: np.ndarray, y: float, x: float) -> np.ndarray:
    """Bilinear, with zeros around the image."""
    padded = np.pad(plane, ((0, 0), (1, 1), (1, 1)))
    height, width = plane.shape[-2:]
    if not (-1 < y < height and -1 < x < width):
        return np.zeros(len(plane))
    return _sample(padded, y + 1, x + 1)


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
