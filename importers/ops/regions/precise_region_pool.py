"""Precise RoI pooling (Jiang et al., Acquisition of Localization Confidence, arXiv 1807.11590, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Alias,
    Arrays,
    Attr,
    Case,
    Expansion,
    Fields,
    Huge,
    HugeCase,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops._huge import numbers
from trtsmith.importers.ops.regions import _region_geometry as common
from trtsmith.importers.ops.regions._region_cases import corners, proposals

_REGIONS_AT_ONCE = 64
"""Of the PyTorch formulation: their rows are as large as so many maps."""


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    bins = fields["output_height"], fields["output_width"]
    return {"output": (shapes["rois"][0], shapes["x"][1], *bins)}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    return [*common.box_faults(shapes, 5), *common.map_faults("x", shapes)]


def _covered(first: float, last: float, bins: int, extent: int) -> np.ndarray:
    """[bins, extent]: the integral of each pixel's tent over each bin, exact: a tent is straight between whole numbers."""
    weights = np.zeros((bins, extent))
    for i in range(bins):
        ends = [first + (last - first) * part / bins for part in (i, i + 1)]
        inner = [n for n in range(-2, extent + 3) if ends[0] < n < ends[1]]
        breaks = np.unique(np.clip(np.array([*ends, *inner]), -2, extent + 2))
        middle, length = (breaks[1:] + breaks[:-1]) / 2, np.diff(breaks)
        for pixel in range(extent):
            weights[i, pixel] = (length * np.maximum(0, 1 - np.abs(middle - pixel))).sum()
    return weights


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One region after the other."""
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
        output[k] = np.einsum("ph,chw,qw->cpq", rows, x[int(image)], columns, optimize=True) / area
    return {"output": output}


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


def _expand(expansion: Expansion) -> str:
    """A loop over regions: two products of matrices for each. Weights in double, as differences of integrals.

    One image more serves regions that have none, and one channel more maps that have none.
    """
    fields = expansion.fields
    height, width = fields["output_height"], fields["output_width"]

    def line(name: str, low: int, high: int, count: int, extent: str) -> str:
        return f"""
  {name}_low_at = Constant <value = int64 {{{low}}}> ()
  {name}_high_at = Constant <value = int64 {{{high}}}> ()
  {name}_low_given = Gather <axis = 0> (box, {name}_low_at)
  {name}_high_given = Gather <axis = 0> (box, {name}_high_at)
  {name}_low = Mul ({name}_low_given, scale)
  {name}_high = Mul ({name}_high_given, scale)
  {name}_size = Sub ({name}_high, {name}_low)
  {name}_count = Constant <value = double[1] {{{count}}}> ()
  {name}_count_end = Constant <value = int64 {{{count}}}> ()
  {name}_step = Div ({name}_size, {name}_count)
  {name}_numbers = Range (zero, {name}_count_end, one)
  {name}_numbers_wide = Cast <to = 11> ({name}_numbers)
  {name}_places = Mul ({name}_numbers_wide, {name}_step)
  {name}_starts = Add ({name}_places, {name}_low)
  {name}_shape = Constant <value = int64[2] {{{count}, 1}}> ()
  {name}_column = Reshape ({name}_starts, {name}_shape)
  {name}_pixels = Range (zero, {extent}, one)
  {name}_pixels_wide = Cast <to = 11> ({name}_pixels)
  {name}_from = Sub ({name}_column, {name}_pixels_wide)
  {name}_to = Add ({name}_from, {name}_step)
  {_integral(f"{name}_from")}
  {_integral(f"{name}_to")}
  {name}_covered = Sub ({name}_to_integral, {name}_from_integral)
  {name}_share = Div ({name}_covered, {name}_step)
  {name}_weights = Cast <to = 1> ({name}_share)"""

    return f"""
unit = Constant <value = double {{1}}> ()
minus_unit = Constant <value = double {{-1}}> ()
half = Constant <value = double {{0.5}}> ()
nought = Constant <value = double {{0}}> ()
zero_float = Constant <value = float {{0}}> ()
largest = Constant <value = double {{3.4028235e38}}> ()
scale = Constant <value = double {{{float(np.float32(fields["spatial_scale"]))!r}}}> ()
zero = Constant <value = int64 {{0}}> ()
one = Constant <value = int64 {{1}}> ()
i0 = Constant <value = int64[1] {{0}}> ()
i1 = Constant <value = int64[1] {{1}}> ()
i2 = Constant <value = int64[1] {{2}}> ()
i3 = Constant <value = int64[1] {{3}}> ()
i4 = Constant <value = int64[1] {{4}}> ()
i5 = Constant <value = int64[1] {{5}}> ()
go = Constant <value = bool {{1}}> ()
sizes = Shape (x)
batch = Slice (sizes, i0, i1)
channels = Slice (sizes, i1, i2)
high = Slice (sizes, i2, i3)
wide = Slice (sizes, i3, i4)
high_end = Squeeze (high)
wide_end = Squeeze (wide)
batch_wide = Cast <to = 11> (batch)
channels_some = Add (channels, i1)
plane_sizes = Slice (sizes, i2, i4)
spare_channel_shape = Concat <axis = 0> (batch, i1, plane_sizes)
spare_channel = Expand (zero_float, spare_channel_shape)
x_some = Concat <axis = 1> (x, spare_channel)
spare_shape = Concat <axis = 0> (i1, channels_some, plane_sizes)
spare = Expand (zero_float, spare_shape)
maps = Concat <axis = 0> (x_some, spare)
region_sizes = Shape (rois)
regions = Slice (region_sizes, i0, i1)
regions_end = Squeeze (regions)
rois_wide = Cast <to = 11> (rois)
by_region = Loop <body = pool (int64 k, bool keep) => (bool keep_on, float[c, p, q] pooled) {{
  keep_on = Identity (keep)
  roi = Gather <axis = 0> (rois_wide, k)
  image = Slice (roi, i0, i1)
  given = Slice (roi, i1, i5)
  absolute = Abs (given)
  too_large = Less (largest, absolute)
  finite_equal = Equal (given, given)
  finite_small = Not (too_large)
  finite = And (finite_equal, finite_small)
  box = Where (finite, given, nought)
  finite_number = Cast <to = 7> (finite)
  numbers_fine = ReduceMin <keepdims = 0> (finite_number)
  all_finite = Cast <to = 9> (numbers_fine)
  after_first = Less (minus_unit, image)
  before_end = Less (image, batch_wide)
  image_exists = And (after_first, before_end){line("y", 1, 3, height, "high_end")}{line("x", 0, 2, width, "wide_end")}
  y_some = Less (nought, y_size)
  x_more = Less (nought, x_size)
  some = And (y_some, x_more)
  there = And (some, image_exists)
  usable = And (there, all_finite)
  image_safe = Where (usable, image, batch_wide)
  image_number = Cast <to = 7> (image_safe)
  image_alone = Squeeze (image_number)
  map = Gather <axis = 0> (maps, image_alone)
  y_safe = Where (usable, y_weights, zero_float)
  x_safe = Where (usable, x_weights, zero_float)
  by_row = MatMul (y_safe, map)
  x_turned = Transpose <perm = [1, 0]> (x_safe)
  pooled = MatMul (by_row, x_turned)
}}> (regions_end, go)
bins = Constant <value = int64[2] {{{height}, {width}}}> ()
some_shape = Concat <axis = 0> (regions, channels_some, bins)
some_output = Reshape (by_region, some_shape)
output = Slice (some_output, i0, channels, i1)
"""


def _integral(name: str) -> str:
    """`name`_integral: of max(0, 1 - |t|), less a half."""
    return f"""{name}_least = Max ({name}, minus_unit)
  {name}_inside = Min ({name}_least, unit)
  {name}_absolute = Abs ({name}_inside)
  {name}_square = Mul ({name}_inside, {name}_absolute)
  {name}_half = Mul ({name}_square, half)
  {name}_integral = Sub ({name}_inside, {name}_half)"""


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """A bin has two rows and two columns of pixels at least."""
    return Work(flops=math.prod(shapes["output"]) * 12)


def _fields(height: int, width: int, scale: float = 1.0) -> Fields:
    return {"output_height": height, "output_width": width, "spatial_scale": scale}


def _case(
    name: str,
    x: tuple[int, int, int, int],
    count: int,
    kind: str = "near",
    bins: tuple[int, int] = (3, 2),
    scale: float = 0.5,
    **marks: bool,
) -> Case:
    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        extent = (x[2] / scale, x[3] / scale)
        return {"x": rng.normal(size=x), "rois": corners(rng, count, x[0], extent, kind)}

    return Case(name, _fields(*bins, scale), make, **marks)


def _network(
    name: str, x: tuple[int, int, int, int], count: int, scale: float, bins: tuple[int, int] = (7, 7)
) -> Case:
    """Boxes as a detector proposes them, on a map of an image."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        image = (int(x[2] / scale), int(x[3] / scale))
        return {"x": rng.normal(size=x), "rois": proposals(rng, count, image, x[0])}

    return Case(name, _fields(*bins, scale), make, large=True)


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


def _huge(side: int, device: str) -> Huge:
    """Two channels and a bin: at 32800, x has 2.15e9 elements (4.3 GB), and regions lie in both far corners."""
    import torch

    x = torch.randn(1, 2, side, side, device=device, dtype=torch.float16)
    # Multiples of 32, which float16 has up to 65,504.
    near = np.array([0.0, 0.0, 0.0, 32.0, 64.0])
    far = near + np.array([0, side - 96, side - 96, side - 96, side - 96])
    rois = torch.tensor(np.stack([near, far]), device=device, dtype=torch.float16)
    fields = _fields(2, 1)

    def check(outputs: list[Any]) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Of the far corner one more pixel: those before a region that begins at a whole number have a share there."""
        results = []
        for place, cut, first, found in (
            ("near corner", slice(0, 96), 0, outputs[0][0]),
            ("far corner", slice(side - 97, side), 1, outputs[0][1]),
        ):
            part = {"x": numbers(x[:, :, cut, cut]), "rois": near[None] + np.array([0, *[first] * 4])}
            results.append((place, numbers(found), _reference(fields, part)["output"][0]))
        return results

    return Huge(fields, {"x": x, "rois": rois}, check)


PRECISE_REGION_POOL = OpDef(
    name="PreciseRegionPool",
    doc=(
        "Precise RoI pooling: each bin of a box holds the exact average, over all of its area, of the map interpolated "
        "bilinearly between pixels at whole numbers. Outside the map is zero. The output is zero for a region without a "
        "positive size, with a coordinate that is not finite, or whose image does not exist."
    ),
    inputs=(
        Port("x", "T", 4, "[N, C, H, W]"),
        Port("rois", "T", 2, "[K, 5] (image, x1, y1, x2, y2)", positions=True),
    ),
    outputs=(Port("output", "T", 4, "[K, C, output_height, output_width]"),),
    fields=(common.OUTPUT_HEIGHT, common.OUTPUT_WIDTH, common.SPATIAL_SCALE),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            op_type="PrRoIPool",
            domains=("mmcv",),
            inputs=("x", "rois"),
            attributes=(
                Attr("pooled_height", Kind.INT),
                Attr("pooled_width", Kind.INT),
                Attr("spatial_scale", Kind.FLOAT),
            ),
            fields=lambda node: _fields(
                node.attrs["pooled_height"], node.attrs["pooled_width"], node.attrs["spatial_scale"]
            ),
            source="mmcv/ops/prroi_pool.py, PrRoIPoolFunction.symbolic",
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3},
    cases=CASES,
    huge=HugeCase(_huge, size=32_800, small=200),
    benchmarks=BENCHMARKS,
    work=_work,
)
