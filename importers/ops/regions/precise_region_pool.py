"""Precise RoI pooling (Jiang et al., Acquisition of Localization Confidence, arXiv 1807.11590, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Alias, Arrays, Case, Expansion, Fields, OpDef, Port, Shapes, Work, attrs
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._region_cases import Size, network_case, region_case


def _covered(first: float, last: float, bins: int, extent: int) -> np.ndarray:
    """[bins, extent]: the integral of each pixel's tent over each bin, exact: a tent is straight between whole numbers."""
    weights = np.zeros((bins, extent))
    for i in range(bins):
        ends = [first + (last - first) * part / bins for part in (i, i + 1)]
        inner = [n for n in range(-2, extent + 3) if ends[0] < n < ends[1]]
        breaks = np.unique(np.clip(np.array([*ends, *inner]), -2, extent + 2))
        middle, length = (breaks[1:] + breaks[:-1]) / 2, np.diff(breaks)
        tents = np.maximum(0, 1 - np.abs(middle[:, None] - np.arange(extent)))
        weights[i] = length @ tents
    return weights


def _touched(weights: np.ndarray) -> slice:
    """The pixels that have a weight in some bin."""
    found = np.flatnonzero(weights.any(axis=0))
    return slice(found[0], found[-1] + 1) if len(found) else slice(0)


def pool_precisely(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Pools one region after the other."""
    x, rois = inputs["x"].astype(np.float64), inputs["rois"].astype(np.float64)
    height, width = fields["output_height"], fields["output_width"]
    output = np.zeros((len(rois), x.shape[1], height, width))
    for k, (image, *box) in enumerate(rois):
        left, top, right, bottom = (number * fields["spatial_scale"] for number in box)
        if not np.isfinite(box).all() or not -1 < image < len(x) or left >= right or top >= bottom:
            continue
        rows = _covered(top, bottom, height, x.shape[2])
        columns = _covered(left, right, width, x.shape[3])
        area = (bottom - top) * (right - left) / (height * width)
        down, across = _touched(rows), _touched(columns)
        feature = x[int(image)][:, down, across]
        output[k] = rows[:, down] @ feature @ columns[:, across].T / area
    return {"output": output}


def pool_fields(height: int, width: int, scale: float = 1.0) -> Fields:
    return {"output_height": height, "output_width": width, "spatial_scale": scale}


def _case(
    name: str,
    x: Size,
    count: int,
    kind: str = "near",
    bins: tuple[int, int] = (3, 2),
    scale: float = 0.5,
    large: bool = False,
    tiles: bool = False,
) -> Case:
    case = region_case(pool_fields(*bins, scale), name, x, count, kind)
    return replace(case, large=large, tiles=tiles)


def _network(name: str, x: Size, count: int, scale: float, bins: tuple[int, int] = (7, 7)) -> Case:
    return network_case(pool_fields(*bins, scale), name, x, count)


BENCHMARKS = (
    # IoU-Net's head on the finest level of an 800x1344 image and on a coarse one; ATOM's and DiMP's, of one target.
    _network("boxes_7x7", (1, 256, 200, 336), 1000, 0.25),
    _network("boxes_7x7_coarse", (1, 256, 50, 84), 1000, 0.0625),
    _network("tracker_5x5", (1, 256, 36, 36), 10, 0.0625, (5, 5)),
)

CASES = (
    _case("one_of_each", (1, 1, 2, 2), 1, bins=(1, 1)),
    _case("boxes", (2, 5, 13, 17), 9),
    _case("many_bins", (2, 3, 20, 24), 5, bins=(9, 40)),
    _case("wide_map", (1, 3, 9, 90), 6, bins=(2, 5)),
    _case("bins_wider_than_a_warp", (1, 3, 40, 150), 5, bins=(2, 2), scale=1.0),
    _case("one_row", (1, 3, 1, 15), 5),
    _case("one_column", (1, 3, 15, 1), 5, bins=(5, 2)),
    _case("more_channels_than_a_block", (1, 70, 6, 5), 4),
    _case("small_regions", (1, 4, 9, 8), 12, "small"),
    _case("far_outside", (2, 3, 9, 8), 12, "far"),
    _case("strange_regions", (2, 4, 9, 8), 24, "strange"),
    _case("no_regions_of_a_size", (2, 4, 9, 8), 6, "turned"),
    _case("no_regions", (2, 4, 9, 8), 0),
    _case("no_channels", (2, 0, 9, 8), 4),
    _case("tiles", (2, 72, 50, 60), 40, bins=(9, 7), large=True, tiles=True),
    *BENCHMARKS,
)


_NONE, _ONE, _HALF = np.float64(0), np.float64(1), np.float64(0.5)


def expand_precise_regions(expansion: Expansion) -> Value:
    """Loops over regions, with two matrix products for each. Weights are differences of integrals, in double.

    One image more serves regions that have none, and one channel more maps that have none.
    """
    g = Builder(expansion.opset)
    fields = expansion.fields
    height, width = fields["output_height"], fields["output_width"]
    scale = np.float64(np.float32(fields["spatial_scale"]))
    sizes = g.Shape("x")
    batch, channels, plane = sizes[:1], sizes[1:2], sizes[2:4]
    high, wide = g.Squeeze(sizes[2:3]), g.Squeeze(sizes[3:4])
    images = g.Cast(batch, to="float64")
    channels_some = g.Add(channels, [1])
    x_some = g.Concat("x", g.Expand(0.0, [batch, 1, plane]), axis=1)
    maps = g.Concat(x_some, g.Expand(0.0, [1, channels_some, plane]), axis=0)
    regions = g.Shape("rois")[:1]
    rois = g.Cast("rois", to="float64")

    def integral(t: Value) -> Value:
        """Integrates max(0, 1 - |t|), less a half."""
        inside = g.Min(g.Max(t, -_ONE), _ONE)
        return g.Sub(inside, inside * g.Abs(inside) * _HALF)

    def pixel_weights(box: Value, low: int, high: int, bins: int, pixels: Value) -> tuple[Value, Value]:
        """Returns, along one axis, the box's size and each pixel's weight in each bin."""
        start = g.Gather(box, low, axis=0) * scale
        size = g.Gather(box, high, axis=0) * scale - start
        step = size / np.array([bins], np.float64)
        starts = g.Cast(g.Range(0, bins, 1), to="float64") * step + start
        begin = g.Reshape(starts, [bins, 1]) - g.Cast(g.Range(0, pixels, 1), to="float64")
        covered = integral(begin + step) - integral(begin)
        return size, g.Cast(covered / step, to="float32")

    def pool(k: Value, go: Value) -> tuple[Value, Value]:
        roi = g.Gather(rois, k, axis=0)
        image, given = roi[:1], roi[1:5]
        finite = g.Equal(given, given) & ~g.Less(np.float64(3.4028235e38), g.Abs(given))
        box = g.Where(finite, given, _NONE)
        all_finite = g.Cast(g.ReduceMin(g.Cast(finite, to="int64"), keepdims=0), to="bool")
        exists = g.Less(-_ONE, image) & (image < images)
        y_size, y_weights = pixel_weights(box, 1, 3, height, high)
        x_size, x_weights = pixel_weights(box, 0, 2, width, wide)
        usable = g.Less(_NONE, y_size) & g.Less(_NONE, x_size) & exists & all_finite
        number = g.Squeeze(g.Cast(g.Where(usable, image, images), to="int64"))
        by_row = g.MatMul(g.Where(usable, y_weights, 0.0), g.Gather(maps, number, axis=0))
        return go, g.MatMul(by_row, g.Transpose(g.Where(usable, x_weights, 0.0), perm=[1, 0]))

    signature = "(int64 k, bool go) => (bool go_on, float[c, p, q] pooled)"
    by_region = g.Loop(g.Squeeze(regions), True, body=g.graph(signature, pool))
    bins_shape = g.Concat(regions, channels_some, [height, width], axis=0)
    return g.Slice(g.Reshape(by_region, bins_shape), [0], channels, [1])


_REGIONS_AT_ONCE = 64
"""A limit of the PyTorch formulation, whose rows are as large as this many maps."""


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """Weights of rows and columns as differences of the tent's integral, and two products."""
    import torch

    x, rois = inputs["x"], inputs["rois"]
    batch, channels, *extents = x.shape
    bins = fields["output_height"], fields["output_width"]
    images = rois[:, 0]
    usable = torch.isfinite(rois[:, 1:]).all(1) & (images > -1) & (images < batch)
    box = torch.where(usable[:, None], rois[:, 1:] * fields["spatial_scale"], 0)
    size = box[:, 2:] - box[:, :2]
    usable = usable & (size > 0).all(1)

    def integral(distance: Any) -> Any:
        inside = distance.clamp(-1, 1)
        return inside - inside * inside.abs() / 2

    def weights(axis: int, count: int, extent: int) -> Any:
        """[K, count, extent]"""
        number = torch.arange(count, dtype=x.dtype, device=x.device)
        step = size[:, axis, None] / count
        start = box[:, axis, None] + number * step
        pixel = torch.arange(extent, dtype=x.dtype, device=x.device)
        ends = start[..., None] - pixel
        found = (integral(ends + step[..., None]) - integral(ends)) / step[..., None]
        return torch.where(usable[:, None, None], found, 0)

    rows, columns = weights(1, bins[0], extents[0]), weights(0, bins[1], extents[1])
    output = x.new_zeros(rois.shape[0], channels, *bins)
    image = torch.where(usable, images, 0).long()
    for i in range(batch):
        members = torch.nonzero(usable & (image == i))[:, 0]
        for part in members.split(_REGIONS_AT_ONCE):
            by_row = torch.einsum("kph,chw->kpcw", rows[part], x[i])
            output[part] = torch.einsum("kpcw,kqw->kcpq", by_row, columns[part])
    return (output,)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """A bin has two rows and two columns of pixels at least."""
    return Work(flops=math.prod(shapes["output"]) * 12)


PRECISE_REGION_POOL = OpDef(
    name="PreciseRegionPool",
    doc=(
        "Precise RoI pooling: each bin of a box holds the exact average, over all of its area, of the map interpolated "
        "bilinearly between pixels at whole numbers. Outside the map is zero. The output is zero for a region without a "
        "positive size, with a coordinate that is not finite, or whose image does not exist."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        common.ROIS,
    ),
    outputs=(Port("output", "T", 4, "[K, C, output_height, output_width]"),),
    fields=(common.OUTPUT_HEIGHT, common.OUTPUT_WIDTH, common.SPATIAL_SCALE),
    shape=common.shape,
    check=partial(common.check, 5),
    reference=pool_precisely,
    torch_reference=_torch_reference,
    expand=expand_precise_regions,
    aliases=(
        Alias(
            op_type="PrRoIPool",
            domains=("mmcv",),
            inputs=("x", "rois"),
            attributes=attrs(pooled_height=int, pooled_width=int, spatial_scale=float),
            fields=lambda node: pool_fields(
                node.attrs["pooled_height"], node.attrs["pooled_width"], node.attrs["spatial_scale"]
            ),
            source="mmcv/ops/prroi_pool.py, PrRoIPoolFunction.symbolic",
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    cases=CASES,
    benchmarks=BENCHMARKS,
    work=_work,
)
