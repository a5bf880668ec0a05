"""Works out, in standard ONNX operators, where the samples of regions lie."""

from __future__ import annotations

from collections.abc import Sequence

from trtsmith.importers.ops.regions._region_geometry import MOST_GRID, Geometry


def floats(values: Sequence[float]) -> str:
    """Numbers as ONNX text has them in braces."""
    return ", ".join(f"{value:.9e}" for value in values)


def number(name: str, value: float) -> str:
    """A statement that makes a scalar constant."""
    return f"{name} = Constant <value = float {{{value:.9e}}}> ()"


CONSTANTS = "\n".join(
    (
        *(
            f"i{'m' if i < 0 else ''}{abs(i)} = Constant <value = int64[1] {{{i}}}> ()"
            for i in (-1, 0, 1, 2, 3, 4, 5, 6)
        ),
        number("nought", 0.0),
        number("unit", 1.0),
        number("half", 0.5),
        number("minus_unit", -1.0),
        number("largest", 3.0e38),
    )
)


def columns(geometry: Geometry, regions: str) -> str:
    """The regions' numbers, [K, 1] each; those of regions that are read nowhere become 0."""
    count = geometry.numbers
    lines = [
        f"""
region_shape = Shape ({regions})
k = Slice (region_shape, i0, i1)
column_shape = Concat <axis = 0> (k, i1)
image_given = Slice ({regions}, i0, i1, i1)
images = Cast <to = 1> (batch_0)
image_low = Greater (image_given, minus_unit)
image_high = Less (image_given, images)
usable_0 = And (image_low, image_high)"""
    ]
    for i in range(1, count):
        lines.append(f"""
given_{i} = Slice ({regions}, i{i}, i{i + 1}, i1)
absolute_{i} = Abs (given_{i})
finite_{i} = Less (absolute_{i}, largest)
usable_{i} = And (usable_{i - 1}, finite_{i})""")
    lines.append(
        f"image_safe = Where (usable_{count - 1}, image_given, nought)\nimage = Cast <to = 7> (image_safe)"
    )
    lines += [f"number_{i} = Where (usable_{count - 1}, given_{i}, nought)" for i in range(1, count)]
    return "\n".join(lines)


def sizes(geometry: Geometry) -> str:
    """Per region [K, 1]: its level, that level's size and first row; its corner or centre, and its size, in pixels."""
    rotated = geometry.angle_scale is not None
    lines = [
        "width_given = Identity (number_3)" if rotated else "width_given = Sub (number_3, number_1)",
        "height_given = Identity (number_4)" if rotated else "height_given = Sub (number_4, number_2)",
        "area = Mul (width_given, height_given)",
        "area_positive = Max (area, nought)",
        "side = Sqrt (area_positive)",
        number("finest", geometry.finest_scale),
        number("epsilon", 1e-6),
        "ratio_bare = Div (side, finest)",
        "ratio = Add (ratio_bare, epsilon)",
        "level_0 = Mul (image, i0)",
    ]
    for i in range(1, len(geometry.scales)):
        lines.append(f"""
{number(f"bound_{i}", 2.0**i)}
under_{i} = Less (ratio, bound_{i})
over_{i} = Not (under_{i})
step_{i} = Cast <to = 7> (over_{i})
level_{i} = Add (level_{i - 1}, step_{i})""")
    lines.append(f"""
level = Identity (level_{len(geometry.scales) - 1})
map_height = Gather <axis = 0> (highs, level)
map_width = Gather <axis = 0> (wides, level)
map_base = Gather <axis = 0> (bases, level)
scale = Gather <axis = 0> (scales, level)""")
    grown = geometry.growth > 0
    ends = 1.0 if geometry.growth_counts_ends else 0.0
    lines += [
        number("growth", geometry.growth),
        number("ends", ends),
        number("pixel_offset", geometry.pixel_offset),
    ]
    for axis, name in enumerate(("width", "height"), 1):
        if grown:
            lines.append(f"""
{name}_whole = Add ({name}_given, ends)
{name}_larger = Mul ({name}_whole, growth)
{name}_grown = Sub ({name}_larger, ends)
{name}_more = Sub ({name}_given, {name}_grown)
{name}_moved = Mul ({name}_more, half)""")
        extent = f"{name}_grown" if grown else f"{name}_given"
        first = f"number_{axis}"
        if grown and not rotated:
            lines.append(f"{name}_first = Add ({first}, {name}_moved)")
            first = f"{name}_first"
        size = f"{name}_scaled" if geometry.least_size is not None else f"{name}"
        lines.append(f"{size} = Mul ({extent}, scale)")
        if geometry.least_size is not None:
            lines.append(number(f"{name}_least", geometry.least_size))
            lines.append(f"{name} = Max ({name}_scaled, {name}_least)")
        lines.append(f"{name}_at = Mul ({first}, scale)\n{name}_start = Sub ({name}_at, pixel_offset)")
    return "\n".join(lines)


def grids(geometry: Geometry) -> str:
    """Samples along each side of a bin, [K, 1], and the most of any region."""
    usable = f"usable_{geometry.numbers - 1}"
    lines = [number("most_grid", float(MOST_GRID))]
    for name, bins in (("width", geometry.output_width), ("height", geometry.output_height)):
        lines.append(number(f"{name}_bins", float(bins)))
        lines.append(f"{name}_bin = Div ({name}, {name}_bins)")
        if geometry.sampling_ratio > 0:
            lines.append(number(f"{name}_ratio", float(geometry.sampling_ratio)))
            lines.append(f"{name}_grid_bare = Expand ({name}_ratio, column_shape)")
        else:
            lines.append(f"{name}_grid_bare = Ceil ({name}_bin)")
        lines.append(f"""
{name}_some = Less (nought, {name}_grid_bare)
{name}_few_not = Less (most_grid, {name}_grid_bare)
{name}_few = Not ({name}_few_not)
{name}_usable = And ({name}_some, {name}_few)""")
    lines.append(f"""
usable_size = And (width_usable, height_usable)
usable = And ({usable}, usable_size)
one_column = Reshape (unit, one_one)""")
    for name in ("width", "height"):
        lines.append(f"{name}_grid = Where (usable, {name}_grid_bare, nought)")
        if geometry.sampling_ratio > 0:
            lines.append(f"{name}_most = Identity ({name}_ratio)")
        else:
            lines.append(f"{name}_more_than_none = Concat <axis = 0> ({name}_grid, one_column)")
            lines.append(f"{name}_most = ReduceMax <keepdims = 0> ({name}_more_than_none)")
    return "one_one = Concat <axis = 0> (i1, i1)\n" + "\n".join(lines)


def sides(geometry: Geometry) -> str:
    """Positions of samples along the sides of a region, from its first corner, [K, PH, 1, GY, 1] and [K, 1, PW, 1, GX]."""
    lines = ["cube_shape = Concat <axis = 0> (k, i1, i1)"]
    for name, bins in (("width", geometry.output_width), ("height", geometry.output_height)):
        lines.append(f"""
{name}_bins_int = Constant <value = int64[1] {{{bins}}}> ()
{name}_bin_numbers = Constant <value = float[1, {bins}, 1] {{{floats(range(bins))}}}> ()
{name}_numbers = Range (nought, {name}_most, unit)
{name}_number_shape = Shape ({name}_numbers)
{name}_row_shape = Concat <axis = 0> (i1, i1, {name}_number_shape)
{name}_row = Reshape ({name}_numbers, {name}_row_shape)
{name}_middle = Add ({name}_row, half)
{name}_grid_cube = Reshape ({name}_grid, cube_shape)
{name}_divisor = Max ({name}_grid_cube, unit)
{name}_share = Div ({name}_middle, {name}_divisor)
{name}_part = Add ({name}_bin_numbers, {name}_share)
{name}_bin_cube = Reshape ({name}_bin, cube_shape)
{name}_line = Mul ({name}_part, {name}_bin_cube)
{name}_exists_row = Less ({name}_row, {name}_grid_cube)
{name}_exists_int = Cast <to = 1> ({name}_exists_row)""")
    lines.append("""
y_shape = Concat <axis = 0> (k, height_bins_int, i1, height_number_shape, i1)
x_shape = Concat <axis = 0> (k, i1, width_bins_int, i1, width_number_shape)
y_flag_shape = Concat <axis = 0> (k, i1, i1, height_number_shape, i1)
x_flag_shape = Concat <axis = 0> (k, i1, i1, i1, width_number_shape)
full_shape = Concat <axis = 0> (k, height_bins_int, width_bins_int, height_number_shape, width_number_shape)
y_line = Reshape (height_line, y_shape)
x_line = Reshape (width_line, x_shape)
y_flag = Reshape (height_exists_int, y_flag_shape)
x_flag = Reshape (width_exists_int, x_flag_shape)
both_flags = Mul (y_flag, x_flag)
flags = Expand (both_flags, full_shape)
exists = Greater (flags, half)
region_cube = Concat <axis = 0> (k, i1, i1, i1, i1)
x_start = Reshape (width_start, region_cube)
y_start = Reshape (height_start, region_cube)
x_size = Reshape (width, region_cube)
y_size = Reshape (height, region_cube)""")
    return "\n".join(lines)


def shift(geometry: Geometry, offsets: str) -> str:
    """Moves bins by their offsets, shares of the region's size."""
    if not offsets:
        return "x_from = Identity (x_line)\ny_from = Identity (y_line)"
    return f"""
{number("offset_scale", geometry.offset_scale)}
offset_shape = Concat <axis = 0> (k, height_bins_int, width_bins_int, i1, i1)
x_offset_plane = Slice ({offsets}, i0, i1, i1)
y_offset_plane = Slice ({offsets}, i1, i2, i1)
x_offset = Reshape (x_offset_plane, offset_shape)
y_offset = Reshape (y_offset_plane, offset_shape)
x_offset_scaled = Mul (x_offset, offset_scale)
y_offset_scaled = Mul (y_offset, offset_scale)
x_offset_pixels = Mul (x_offset_scaled, x_size)
y_offset_pixels = Mul (y_offset_scaled, y_size)
x_from = Add (x_line, x_offset_pixels)
y_from = Add (y_line, y_offset_pixels)"""


PLACE = """
sx = Add (x_from, x_start)
sy = Add (y_from, y_start)"""

ROTATE = """
x_half = Mul (x_size, half)
y_half = Mul (y_size, half)
x_local = Sub (x_from, x_half)
y_local = Sub (y_from, y_half)
angle = Mul (number_5, angle_scale)
cosine_column = Cos (angle)
sine_column = Sin (angle)
cosine = Reshape (cosine_column, region_cube)
sine = Reshape (sine_column, region_cube)
y_down = Mul (y_local, cosine)
x_down = Mul (x_local, sine)
y_right = Mul (y_local, sine)
x_right = Mul (x_local, cosine)
y_turned = Sub (y_down, x_down)
x_turned = Add (y_right, x_right)
sx = Add (x_turned, x_start)
sy = Add (y_turned, y_start)"""
