"""Expands precise RoI pooling into standard ONNX operators."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.opdef import Expansion


def expand_precise_regions(expansion: Expansion) -> str:
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
