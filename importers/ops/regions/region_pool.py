"""RoI pooling by whole pixels: Fast R-CNN's (Girshick, arXiv 1504.08083, 2.1) and R-FCN's (Dai et al., arXiv 1605.06409)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value, bounded
from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Case,
    Expansion,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
    attrs,
)
from trtsmith.importers.ops._shared import flag
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._region_cases import network_case, region_case
from trtsmith.importers.ops.regions.position_sensitive_region_align import channels_read

LOWEST = float(np.finfo(np.float32).min)
"""Of a bin without a number: what its largest begins with."""

FARTHEST = 2.0**30
"""Pixels from the map's corner: a region that goes beyond is zero."""


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    height, width = fields["output_height"], fields["output_width"]
    channels = shapes["x"][1] // (height * width) if fields["by_position"] == 1 else shapes["x"][1]
    return {"output": (shapes["rois"][0], channels, height, width)}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = common.check(5, fields, shapes)
    return faults + common.check_bins(fields, shapes) if fields["by_position"] == 1 else faults


def _bounds(fields: Fields, first: float, last: float, bins: int, extent: int) -> list[slice]:
    """The pixels of each bin along an axis, in float32 as torchvision and onnxruntime have it."""
    scale, average = np.float32(fields["spatial_scale"]), fields["by_position"]
    with np.errstate(over="ignore", invalid="ignore"):
        ends = [float(np.float32(end) * scale) for end in (first, last)]
    if not all(abs(end) <= FARTHEST for end in ends):
        return [slice(0, 0)] * bins
    start, stop = (int(np.trunc(end + np.copysign(0.5, end))) for end in ends)
    size = np.float32(max(stop - start + 1 - average, 1)) / np.float32(bins)
    limit = max(extent - average, 0)
    return [
        slice(
            min(max(int(np.floor(np.float32(b) * size)) + start, 0), limit),
            min(max(int(np.ceil(np.float32(b + 1) * size)) + start, 0), limit),
        )
        for b in range(bins)
    ]


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One bin after the other."""
    x, rois = inputs["x"].astype(np.float64), inputs["rois"].astype(np.float64)
    height, width = fields["output_height"], fields["output_width"]
    channels = x.shape[1] // (height * width) if fields["by_position"] else x.shape[1]
    output = np.zeros((len(rois), channels, height, width))
    for k, (image, *box) in enumerate(rois):
        if not -1 < image < len(x):
            continue
        rows = _bounds(fields, box[1], box[3], height, x.shape[2])
        columns = _bounds(fields, box[0], box[2], width, x.shape[3])
        for i, j in np.ndindex(height, width):
            pixels = x[int(image)][:, rows[i], columns[j]].reshape(x.shape[1], -1)
            if not pixels.size:
                continue
            if fields["by_position"]:
                output[k, :, i, j] = pixels[i * width + j :: height * width].mean(axis=1)
            else:
                output[k, :, i, j] = np.fmax(pixels, LOWEST).max(axis=1)
    return {"output": output}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """Bounds of all regions at once; rows of a bin before its columns."""
    import torch

    x, rois = inputs["x"], inputs["rois"]
    height, width, average = fields["output_height"], fields["output_width"], fields["by_position"]
    bins = height * width
    output = x.new_zeros(len(rois), x.shape[1] // (bins if average else 1), height, width)
    corners_ = rois[:, 1:].float() * torch.tensor(fields["spatial_scale"], dtype=torch.float32)
    usable = (corners_.abs() <= FARTHEST).all(1) & (rois[:, 0] > -1) & (rois[:, 0] < len(x))
    whole = corners_.double()
    whole = torch.where(usable[:, None], whole.sign() * (whole.abs() + 0.5).floor(), 0)

    def bounds(low: int, count: int, extent: int) -> Any:
        """[K, count, 2]"""
        start, stop = whole[:, low], whole[:, low + 2]
        # By a tensor: PyTorch on a GPU multiplies with the reciprocal of a number, which moves edges across pixels.
        size = (stop - start + 1 - average).clamp(min=1).float()
        size = size / torch.full_like(size, count)
        edges = torch.arange(count + 1, device=x.device) * size[:, None]
        pair = torch.stack([edges[:, :-1].floor(), edges[:, 1:].ceil()], 2)
        return (pair.double() + start[:, None, None]).clamp(0, max(extent - average, 0)).long()

    rows, columns = bounds(1, height, x.shape[2]).tolist(), bounds(0, width, x.shape[3]).tolist()
    known = x if average else x.masked_fill(x.isnan(), -torch.inf)
    for k in usable.nonzero()[:, 0].tolist():
        image = known[int(rois[k, 0])]
        for i, (top, bottom) in enumerate(rows[k]):
            band: Any = (
                image[:, top:bottom] if average else image[:, top:bottom].amax(1) if top < bottom else None
            )
            for j, (left, right) in enumerate(columns[k]):
                if top >= bottom or left >= right:
                    continue
                if average:
                    output[k, :, i, j] = band[i * width + j :: bins, :, left:right].mean((1, 2))
                else:
                    output[k, :, i, j] = band[:, left:right].amax(1).double().clamp(min=LOWEST)
    return (output,)


def _expand(expansion: Expansion) -> Value:
    """A loop over regions. One image more, of zeros, serves those that have none."""
    g = Builder(expansion.opset)
    fields = expansion.fields
    height, width, average = fields["output_height"], fields["output_width"], fields["by_position"]
    sizes = g.Shape("x")
    batch, extents = sizes[:1], sizes[2:4]
    lowest = np.float32(0.0 if average else LOWEST)
    known = g.Concat("x", g.Expand(0.0, [1, sizes[1:4]]), axis=0)
    if not average:
        known = g.Max(g.Where(g.Equal(known, known), known, lowest), lowest)
    tiles = [height, width] if average else [1, 1]
    maps = g.Reshape(known, [g.Add(batch, [1]), -1, *tiles, extents])
    scaled = g.Cast("rois", to="float32") * np.array([1, *[fields["spatial_scale"]] * 4], np.float32)
    near = g.Not(g.Less(np.float32(FARTHEST), g.Abs(scaled))) & g.Equal(scaled, scaled)
    finite = g.Cast(g.Where(near, scaled, np.float32(0)), to="float64")
    half = np.float64(0.5)
    whole = g.Cast(g.Sign(finite) * g.Floor(g.Abs(finite) + half), to="int64")
    all_near = g.ReduceMin(g.Cast(near, to="int64"), axes=[1], keepdims=0)
    image = g.Squeeze(g.Slice(finite, [0], [1], [1]), axes=[1])
    exists = (
        g.Less(np.float64(-1), image)
        & g.Less(image, g.Cast(batch, to="float64"))
        & g.Cast(all_near, to="bool")
    )
    numbers = g.Where(exists, g.Cast(image, to="int64"), batch)

    def members(box: Value, low: int, bins: int, extent: Value) -> Value:
        """[bins, extent]: the pixels of each bin along an axis."""
        start = g.Gather(box, low, axis=0)
        length = g.Gather(box, low + 2, axis=0) - start + (1 - average)
        length = g.Where(g.Less(length, 1), 1, length)
        edges = np.arange(bounded(bins) + 1, dtype=np.float32)
        size = g.Cast(length, to="float32") / np.float32(bins)
        begin = g.Cast(g.Floor(edges[:-1] * size), to="int64") + start
        end = g.Cast(g.Ceil(edges[1:] * size), to="int64") + start
        pixel = g.Unsqueeze(g.Range(0, g.Squeeze(extent), 1), axes=[0])
        inside = g.Not(g.Less(pixel, g.Unsqueeze(begin, axes=[1]))) & g.Less(
            pixel, g.Unsqueeze(end, axes=[1])
        )
        return inside & g.Less(pixel, extent - [average])

    def pool(k: Value, go: Value) -> tuple[Value, Value]:
        box = g.Gather(whole, k, axis=0)
        down = members(box, 2, height, extents[:1])
        across = members(box, 1, width, extents[1:2])
        feature = g.Gather(maps, g.Gather(numbers, k, axis=0), axis=0)  # [C, PH or 1, PW or 1, H, W]
        reduce = "ReduceSum" if average else "ReduceMax"
        in_rows = g.Where(g.Unsqueeze(down, axes=[1, 3]), feature, lowest)
        bands = g.write(reduce, in_rows, axes=[3], keepdims=0)
        pooled = g.write(reduce, g.Where(across, bands, lowest), axes=[3], keepdims=0)
        counts = [g.ReduceSum(g.Cast(side, to="float32"), axes=[1], keepdims=0) for side in (down, across)]
        area = g.Unsqueeze(counts[0], axes=[1]) * counts[1]
        some = g.Less(0.0, area)
        mean = pooled / g.Where(some, area, 1.0) if average else pooled
        return go, g.Where(some & g.Gather(exists, k, axis=0), mean, 0.0)

    count = g.Shape("rois")[:1]
    signature = "(int64 k, bool go) => (bool go_on, float[c, p, q] pooled)"
    by_region = g.Loop(g.Squeeze(count), True, body=g.graph(signature, pool))
    channels = g.Div(sizes[1:2], [height * width]) if average else sizes[1:2]
    return g.Reshape(by_region, [count, channels, height, width])


_DEFAULTS = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5, "by_position": 0}


def _case(name: str, batch: int, channels: int, rois: int, kind: str = "near", **given: Any) -> Case:
    """channels: of the output."""
    fields = _DEFAULTS | given
    bins = fields["output_height"] * fields["output_width"] if fields["by_position"] else 1
    return region_case(fields, name, (batch, channels * bins, 13, 11), rois, kind)


def _spoilt(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A NaN is no number; one beside the regions is nobody's."""
    x = rng.normal(size=(1, 6, 13, 11))
    x[rng.random(x.shape) < 0.2] = np.nan
    return {"x": x, "rois": np.array([[0.0, 0, 0, 20, 24], [0, 2, 2, 19, 17], [0, -9, -9, 30, 40]])}


_network = partial(network_case, {"output_height": 7, "output_width": 7, "spatial_scale": 0.0625})


# Fast R-CNN's head on VGG-16 and R-FCN's on ResNet-101 (21 classes), stride 16.
_BENCHMARKS = (
    _network("fast_rcnn_7x7", (1, 512, 38, 63), 300, by_position=0),
    _network("r_fcn_7x7", (1, 1029, 38, 63), 300, by_position=1),
)

_CASES = (
    _case("one_of_each", 1, 1, 1, output_height=1, output_width=1),
    _case("three_by_two", 2, 5, 9),
    _case("seven_by_seven", 1, 3, 7, output_height=7, output_width=7),
    _case("more_bins_than_pixels", 1, 3, 6, output_height=17, output_width=19),
    _case("whole_pixels", 1, 4, 9, spatial_scale=1.0),
    _case("small_regions", 1, 4, 9, "small"),
    _case("turned_regions", 1, 4, 9, "turned"),
    _case("far_outside", 2, 3, 12, "far"),
    _case("nan_and_huge_regions", 2, 4, 25, "strange"),
    _case("many_channels", 1, 300, 2),
    _case("no_regions", 1, 3, 0),
    _case("no_batch", 0, 3, 2),
    _case("by_position", 2, 5, 9, by_position=1),
    _case("by_position_one_bin", 1, 2, 3, by_position=1, output_height=1, output_width=1),
    _case("by_position_small", 1, 4, 9, "small", by_position=1),
    _case("by_position_turned", 1, 4, 9, "turned", by_position=1),
    _case("by_position_far", 2, 3, 12, "far", by_position=1),
    _case("by_position_strange", 2, 4, 25, "strange", by_position=1),
    _case("by_position_no_regions", 1, 3, 0, by_position=1),
    Case("strange_numbers", _DEFAULTS, _spoilt),
    *_BENCHMARKS,
)

_CONSTANTS = attrs(spatial_scale=float, pooled_height=int, pooled_width=int)


def _fields(by_position: int, height: int, width: int, scale: float) -> Fields:
    return {
        "output_height": height,
        "output_width": width,
        "spatial_scale": scale,
        "by_position": by_position,
    }


def _onnx_fields(node: AliasedNode) -> Fields:
    height, width = node.attrs["pooled_shape"]
    return _fields(0, height, width, node.attrs["spatial_scale"])


def _torchvision_fields(node: AliasedNode, by_position: int) -> Fields:
    a = node.attrs
    return _fields(by_position, a["pooled_height"], a["pooled_width"], a["spatial_scale"])


def _torchvision(fields: Fields, tensors: Mapping[str, Any]) -> tuple[Any]:
    from torchvision.ops import ps_roi_pool, roi_pool

    pool = ps_roi_pool if fields["by_position"] else roi_pool
    images = tensors["rois"][:, 0]
    if not bool(((images >= 0) & (images < len(tensors["x"]))).all()):
        raise ValueError("torchvision reads beyond the map for an image that is not there")
    size = fields["output_height"], fields["output_width"]
    return (pool(tensors["x"], tensors["rois"], size, fields["spatial_scale"]),)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """A bin has one pixel at least."""
    count, channels, height, width = shapes["output"]
    return Work(flops=count * channels * height * width)


REGION_POOL = OpDef(
    name="RegionPool",
    doc=(
        "RoI pooling by whole pixels: corners are rounded, halves away from zero, and neighbouring bins may share a pixel. "
        "A bin holds the largest number of each channel, or the average of a channel of its own. NaN is passed over by the "
        "largest. A bin without pixels is zero, and so is a region whose image does not exist, or with a corner that is not "
        "finite or farther than 2^30 pixels. The average leaves out the last row and column of the map, as in torchvision."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]; by position, bin b of channel c reads channel c * bins + b"),
        common.ROIS,
    ),
    outputs=(Port("output", "T", 4, "[K, C, output_height, output_width]; by position C / bins channels"),),
    fields=(
        common.OUTPUT_HEIGHT,
        common.OUTPUT_WIDTH,
        common.SPATIAL_SCALE,
        flag("by_position", "0: the largest of each channel; 1: the average, of a channel for each bin"),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            op_type="MaxRoiPool",
            domains=("",),
            inputs=("x", "rois"),
            attributes=(
                Attr("pooled_shape", Kind.INTS, lengths=(2,)),
                Attr("spatial_scale", Kind.FLOAT, 1.0),
            ),
            fields=_onnx_fields,
            source="ONNX; torchvision's and mmcv's roi_pool by PyTorch's TorchScript exporter",
        ),
        Alias(
            op_type="roi_pool",
            domains=("torchvision",),
            inputs=("x", "rois"),
            constants=_CONSTANTS,
            outputs=("output",),
            fields=lambda node: _torchvision_fields(node, 0),
            source="torchvision ops/roi_pool; its second output serves its gradient",
        ),
        Alias(
            op_type="ps_roi_pool",
            domains=("torchvision",),
            inputs=("x", "rois"),
            outputs=("output", "channel_mapping"),
            constants=_CONSTANTS,
            fields=lambda node: _torchvision_fields(node, 1),
            epilogue=channels_read,
            source="torchvision ops/ps_roi_pool",
        ),
    ),
    cases=_CASES,
    tolerance={"float32": 1.7e-7, "float16": 5e-4, "bfloat16": 3.4e-3},
    benchmarks=_BENCHMARKS,
    baselines={"torchvision": _torchvision},
    work=_work,
)
