"""Samples maps bilinearly in standard ONNX operators: up to a pixel outside a map has its edge, and is zero farther away."""

from __future__ import annotations

CONSTANTS = """
nought = Constant <value = double {0}> ()
unit = Constant <value = double {1}> ()
minus_unit = Constant <value = double {-1}> ()
zero_float = Constant <value = float {0}> ()
i0 = Constant <value = int64[1] {0}> ()
i1 = Constant <value = int64[1] {1}> ()
i2 = Constant <value = int64[1] {2}> ()
i3 = Constant <value = int64[1] {3}> ()
i4 = Constant <value = int64[1] {4}> ()
"""


def pixel_table(groups: int) -> str:
    """From `x` [N, groups * C, H, W] to rows of C channels, `table` [N * groups * H * W + 1, C], the last one zero.

    Also its sizes: int64[1] `batch`, `channels`, `high`, `wide`, `area`, and `spare`, the number of the zero row.
    """
    return f"""{CONSTANTS}
groups = Constant <value = int64[1] {{{groups}}}> ()
sizes = Shape (x)
batch = Slice (sizes, i0, i1)
planes = Slice (sizes, i1, i2)
high = Slice (sizes, i2, i3)
wide = Slice (sizes, i3, i4)
channels = Div (planes, groups)
area = Mul (high, wide)
images = Mul (batch, groups)
spare = Mul (images, area)
apart_shape = Concat <axis = 0> (images, channels, area)
apart = Reshape (x, apart_shape)
channels_last = Transpose <perm = [0, 2, 1]> (apart)
rows_shape = Concat <axis = 0> (spare, channels)
rows = Reshape (channels_last, rows_shape)
zero_shape = Concat <axis = 0> (i1, channels)
zero_row = Expand (zero_float, zero_shape)
table = Concat <axis = 0> (rows, zero_row)
high_wide = Cast <to = 11> (high)
wide_wide = Cast <to = 11> (wide)
high_last = Sub (high_wide, unit)
wide_last = Sub (wide_wide, unit)
"""


def sampled(indent: str = "") -> str:
    """From double `y` and `x_at` [...], and int64 `first`, the first row of the map of each, to `sample` [..., C]."""
    text = ""
    for axis, position, end, last in (
        ("v", "y", "high_wide", "high_last"),
        ("h", "x_at", "wide_wide", "wide_last"),
    ):
        text += f"""
{axis}_below = Less ({position}, minus_unit)
{axis}_above = Less ({end}, {position})
{axis}_number = Equal ({position}, {position})
{axis}_out = Or ({axis}_below, {axis}_above)
{axis}_not_out = Not ({axis}_out)
{axis}_inside = And ({axis}_not_out, {axis}_number)
{axis}_safe = Where ({axis}_inside, {position}, nought)
{axis}_least = Max ({axis}_safe, nought)
{axis}_place = Min ({axis}_least, {last})
{axis}_low = Floor ({axis}_place)
{axis}_next = Add ({axis}_low, unit)
{axis}_high = Min ({axis}_next, {last})
{axis}_high_share = Sub ({axis}_place, {axis}_low)
{axis}_low_share = Sub (unit, {axis}_high_share)
{axis}_low_pixel = Cast <to = 7> ({axis}_low)
{axis}_high_pixel = Cast <to = 7> ({axis}_high)"""
    text += """
inside_both = And (v_inside, h_inside)
some_pixels = Greater (area, i0)
inside = And (inside_both, some_pixels)
sample_sizes = Shape (inside)
share_shape = Concat <axis = 0> (sample_sizes, i1)"""
    corners = [("low", "low"), ("low", "high"), ("high", "low"), ("high", "high")]
    for k, (row, column) in enumerate(corners):
        text += f"""
row_{k} = Mul (v_{row}_pixel, wide)
cell_{k} = Add (row_{k}, h_{column}_pixel)
pixel_{k} = Add (cell_{k}, first)
index_{k} = Where (inside, pixel_{k}, spare)
share_{k} = Mul (v_{row}_share, h_{column}_share)
share_float_{k} = Cast <to = 1> (share_{k})
share_last_{k} = Reshape (share_float_{k}, share_shape)
value_{k} = Gather <axis = 0> (table, index_{k})
corner_{k} = Mul (value_{k}, share_last_{k})"""
    text += "\nsample = Sum (corner_0, corner_1, corner_2, corner_3)"
    return text.replace("\n", f"\n{indent}")
