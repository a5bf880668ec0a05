"""Expands the pooling of regions into standard ONNX operators."""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.importers.ops.regions._region_geometry import AVERAGE, MAXIMUM, Geometry
from trtsmith.importers.ops.regions._region_onnx_positions import (
    CONSTANTS,
    PLACE,
    ROTATE,
    columns,
    floats,
    grids,
    number,
    shift,
    sides,
    sizes,
)

SUM_AXES_INPUT = 13
MAX_AXES_INPUT = 18
"""First opsets in which the axes of ReduceSum and ReduceMax are an input."""

_LEAST = -3.0e38


def expand_regions(
    geometry: Geometry, features: Sequence[str], regions: str, opset: int, offsets: str = ""
) -> str:
    """From the named inputs to `output`.

    Flat gathers with computed row indices: all levels' pixels become rows [pixels + 1, C], the last of which is zero.
    Each corner of every sample is gathered by row; a corner of a sample that is outside, or that a region with fewer
    samples than another does not have, takes the last row.
    """
    parts = (
        CONSTANTS,
        _table(geometry, features),
        columns(geometry, regions),
        sizes(geometry),
        grids(geometry),
        sides(geometry),
        shift(geometry, offsets),
        PLACE if geometry.angle_scale is None else number("angle_scale", geometry.angle_scale) + ROTATE,
        _corners(geometry),
        _pool(geometry, opset),
    )
    return "\n".join(parts)


def _table(geometry: Geometry, features: Sequence[str]) -> str:
    """Rows of all levels, and their sizes and first rows as lists."""
    lines = [f"bins = Constant <value = int64[1] {{{geometry.bins if geometry.by_position else 1}}}> ()"]
    for i, name in enumerate(features):
        lines.append(f"""
shape_{i} = Shape ({name})
batch_{i} = Slice (shape_{i}, i0, i1)
planes_{i} = Slice (shape_{i}, i1, i2)
high_{i} = Slice (shape_{i}, i2, i3)
wide_{i} = Slice (shape_{i}, i3, i4)
channels_{i} = Div (planes_{i}, bins)
area_{i} = Mul (high_{i}, wide_{i})
image_rows_{i} = Mul (batch_{i}, bins)
rows_{i} = Mul (image_rows_{i}, area_{i})
apart_{i} = Concat <axis = 0> (batch_{i}, channels_{i}, bins, area_{i})
split_{i} = Reshape ({name}, apart_{i})
last_{i} = Transpose <perm = [0, 2, 3, 1]> (split_{i})
flat_{i} = Concat <axis = 0> (rows_{i}, channels_{i})
table_{i} = Reshape (last_{i}, flat_{i})""")
    every = range(len(features))
    lines.append(f"""
zero_shape = Concat <axis = 0> (i1, channels_0)
zero_row = Expand (nought, zero_shape)
table = Concat <axis = 0> ({", ".join(f"table_{i}" for i in every)}, zero_row)
highs = Concat <axis = 0> ({", ".join(f"high_{i}" for i in every)})
wides = Concat <axis = 0> ({", ".join(f"wide_{i}" for i in every)})
counts = Concat <axis = 0> ({", ".join(f"rows_{i}" for i in every)})
cumulative_axis = Constant <value = int64 {{0}}> ()
bases = CumSum <exclusive = 1> (counts, cumulative_axis)
spare_scalar = ReduceSum <keepdims = 0> (counts)
spare = Reshape (spare_scalar, i1)
scales = Constant <value = float[{len(geometry.scales)}] {{{floats(geometry.scales)}}}> ()""")
    return "\n".join(lines)


def _corners(geometry: Geometry) -> str:
    """The four corners of all samples times their weights, [K, PH, PW, GY, GX, C]."""
    lines = []
    for name, size in (("sx", "map_width"), ("sy", "map_height")):
        lines.append(f"""
{name}_end_int = Reshape ({size}, region_cube)
{name}_end = Cast <to = 1> ({name}_end_int)
{name}_last = Sub ({name}_end, unit)
{name}_before = Less ({name}, minus_unit)
{name}_after = Greater ({name}, {name}_end)
{name}_outside = Or ({name}_before, {name}_after)
{name}_not_outside = Not ({name}_outside)
{name}_absolute = Abs ({name})
{name}_number = Less ({name}_absolute, largest)
{name}_inside = And ({name}_not_outside, {name}_number)
{name}_safe = Where ({name}_number, {name}, nought)
{name}_not_before = Max ({name}_safe, nought)
{name}_clamped = Min ({name}_not_before, {name}_last)
{name}_low = Floor ({name}_clamped)
{name}_next = Add ({name}_low, unit)
{name}_high = Min ({name}_next, {name}_last)
{name}_upper = Sub ({name}_clamped, {name}_low)
{name}_lower = Sub (unit, {name}_upper)
{name}_low_int = Cast <to = 7> ({name}_low)
{name}_high_int = Cast <to = 7> ({name}_high)""")
    place = "image_bins = Mul (image, bins)\nimage_cube = Reshape (image_bins, region_cube)"
    if geometry.by_position:
        place += (
            f"\nbin_numbers = Constant <value = int64[1, {geometry.output_height}, {geometry.output_width}, 1, 1] "
            f"{{{', '.join(map(str, range(geometry.bins)))}}}> ()\nimage_plane = Add (image_cube, bin_numbers)"
        )
    else:
        place += "\nimage_plane = Identity (image_cube)"
    lines.append(f"""{place}
map_area = Mul (sx_end_int, sy_end_int)
image_start = Mul (image_plane, map_area)
base_cube = Reshape (map_base, region_cube)
start = Add (base_cube, image_start)
usable_cube = Reshape (usable, region_cube)
some_pixels = Greater (map_area, i0)
inside_xy = And (sx_inside, sy_inside)
inside_some = And (inside_xy, some_pixels)
inside_usable = And (inside_some, usable_cube)
inside = And (inside_usable, exists)
share_shape = Concat <axis = 0> (full_shape, i1)""")
    for k, (row, column) in enumerate((("low", "low"), ("low", "high"), ("high", "low"), ("high", "high"))):
        shares = {"low": "lower", "high": "upper"}
        lines.append(f"""
row_{k} = Mul (sy_{row}_int, sx_end_int)
cell_{k} = Add (row_{k}, sx_{column}_int)
pixel_{k} = Add (cell_{k}, start)
index_{k} = Where (inside, pixel_{k}, spare)
weight_{k} = Mul (sy_{shares[row]}, sx_{shares[column]})
weight_full_{k} = Expand (weight_{k}, full_shape)
share_{k} = Where (inside, weight_full_{k}, nought)
share_last_{k} = Reshape (share_{k}, share_shape)
value_{k} = Gather <axis = 0> (table, index_{k})
corner_{k} = Mul (value_{k}, share_last_{k})""")
    return "\n".join(lines)


def _pool(geometry: Geometry, opset: int) -> str:
    """The bins out of their samples."""
    average = geometry.pooling == AVERAGE
    if geometry.pooling in (AVERAGE, MAXIMUM):
        sample = (
            "top = Add (corner_0, corner_1)\nbottom = Add (corner_2, corner_3)\nsample = Add (top, bottom)"
        )
    else:
        sample = "sample = Max (corner_0, corner_1, corner_2, corner_3)"
    axes = "<axes = [3, 4], keepdims = 0> ({})"
    if opset >= (SUM_AXES_INPUT if average else MAX_AXES_INPUT):
        axes = "<keepdims = 0> ({}, sample_axes)"
    lines = [
        sample,
        "sample_axes = Concat <axis = 0> (i3, i4)",
        "pixel_shape = Concat <axis = 0> (k, i1, i1, i1)",
    ]
    if average:
        lines.append(f"""
sum = ReduceSum {axes.format("sample")}
samples = Mul (width_grid, height_grid)
samples_some = Max (samples, unit)
samples_cube = Reshape (samples_some, pixel_shape)
pooled = Div (sum, samples_cube)""")
    else:
        lines.append(f"""
{number("least", _LEAST)}
exists_last = Reshape (exists, share_shape)
sample_there = Where (exists_last, sample, least)
pooled_bare = ReduceMax {axes.format("sample_there")}
usable_pixel = Reshape (usable, pixel_shape)
pooled = Where (usable_pixel, pooled_bare, nought)""")
    lines.append("output = Transpose <perm = [0, 3, 1, 2]> (pooled)")
    return "\n".join(lines)
