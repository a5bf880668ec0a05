"""Writes sampling in volumes in standard ONNX operators of opset 11."""

from __future__ import annotations

from itertools import product

from trtsmith.importers.opdef import Expansion

_AXES = ("x", "y", "z")
"""In the order of a point's coordinates; the volume's axes are in the reverse order."""

_SIZES = """
i0 = Constant <value = int64[1] {0}> ()
i1 = Constant <value = int64[1] {1}> ()
i2 = Constant <value = int64[1] {2}> ()
i3 = Constant <value = int64[1] {3}> ()
i4 = Constant <value = int64[1] {4}> ()
i5 = Constant <value = int64[1] {5}> ()
nought = Constant <value = float {0}> ()
unit = Constant <value = float {1}> ()
two = Constant <value = float {2}> ()
half = Constant <value = float {0.5}> ()
far = Constant <value = float {-9}> ()
x_shape = Shape (x)
n = Slice (x_shape, i0, i1)
c = Slice (x_shape, i1, i2)
size_z = Slice (x_shape, i2, i3)
size_y = Slice (x_shape, i3, i4)
size_x = Slice (x_shape, i4, i5)
plane = Mul (size_y, size_x)
voxels = Mul (plane, size_z)
all_voxels = Mul (n, voxels)
grid_shape = Shape (grid)
point_shape = Slice (grid_shape, i1, i4)
points = ReduceProd <keepdims = 1> (point_shape)
flat_shape = Concat <axis = 0> (n, c, voxels)
flat = Reshape (x, flat_shape)
last = Transpose <perm = [0, 2, 1]> (flat)
rows_shape = Concat <axis = 0> (all_voxels, c)
given_rows = Reshape (last, rows_shape)
zero_row_shape = Concat <axis = 0> (i1, c)
zero_row = Expand (nought, zero_row_shape)
rows = Concat <axis = 0> (given_rows, zero_row)
all_points = Mul (n, points)
place_shape = Concat <axis = 0> (n, points)
list_shape = Concat <axis = 0> (n, points, i3)
places = Reshape (grid, list_shape)
zero = Squeeze (i0)
one = Squeeze (i1)
images = Squeeze (n)
image = Range (zero, images, one)
first_voxel = Mul (image, voxels)
first_shape = Concat <axis = 0> (n, i1)
first = Reshape (first_voxel, first_shape)
"""

_COORDINATE = """
column_{a} = Slice (places, i{i}, i{next}, i2)
given_{a} = Reshape (column_{a}, place_shape)
extent_{a} = Cast <to = 1> (size_{a})
end_{a} = Sub (extent_{a}, unit)
from_one_{a} = Add (given_{a}, unit)
"""

_ALIGNED = """
share_{a} = Div (from_one_{a}, two)
at_{a} = Mul (share_{a}, end_{a})
"""

_MIDDLES = """
doubled_{a} = Mul (from_one_{a}, extent_{a})
doubled_less_{a} = Sub (doubled_{a}, unit)
at_{a} = Div (doubled_less_{a}, two)
"""

_NAN = """
is_nan_{a} = IsNaN (at_{a})
known_{a} = Where (is_nan_{a}, {instead}, at_{a})
"""

_BORDER = """
above_{a} = Max (known_{a}, nought)
place_{a} = Min (above_{a}, end_{a})
"""

_REFLECTION = """
is_infinite_{a} = IsInf (known_{a})
finite_{a} = Where (is_infinite_{a}, nought, known_{a})
span_{a} = {span}
span_safe_{a} = Max (span_{a}, half)
period_{a} = Mul (span_safe_{a}, two)
from_low_{a} = {from_low}
distance_{a} = Abs (from_low_{a})
inside_{a} = Mod <fmod = 1> (distance_{a}, period_{a})
back_{a} = Sub (period_{a}, inside_{a})
nearer_{a} = Min (inside_{a}, back_{a})
reflected_{a} = {to_low}
reflected_above_{a} = Max (reflected_{a}, nought)
place_{a} = Min (reflected_above_{a}, end_{a})
"""

_ZEROS = """
limit_{a} = Add (extent_{a}, two)
place_high_{a} = Min (known_{a}, limit_{a})
place_{a} = Max (place_high_{a}, far)
"""

_LINEAR = """
low_{a} = Floor (place_{a})
high_{a} = Add (low_{a}, unit)
part_high_{a} = Sub (place_{a}, low_{a})
part_low_{a} = Sub (unit, part_high_{a})
"""

_NEAREST = """
low_{a} = Round (place_{a})
"""

_INSIDE = """
not_below_{a}_{side} = Greater ({side}_{a}, minus_half)
end_half_{a}_{side} = Add (end_{a}, half)
not_above_{a}_{side} = Less ({side}_{a}, end_half_{a}_{side})
in_{a}_{side} = And (not_below_{a}_{side}, not_above_{a}_{side})
safe_{a}_{side} = Where (in_{a}_{side}, {side}_{a}, nought)
index_{a}_{side} = Cast <to = 7> (safe_{a}_{side})
"""

_CORNER = """
in_plane_{k} = And (in_x_{x}, in_y_{y})
exists_{k} = And (in_plane_{k}, in_z_{z})
slab_{k} = Mul (index_z_{z}, plane)
row_{k} = Mul (index_y_{y}, size_x)
to_row_{k} = Add (slab_{k}, row_{k})
voxel_{k} = Add (to_row_{k}, index_x_{x})
row_of_all_{k} = Add (voxel_{k}, first)
index_{k} = Where (exists_{k}, row_of_all_{k}, all_voxels)
index_flat_{k} = Reshape (index_{k}, all_points)
values_{k} = Gather <axis = 0> (rows, index_flat_{k})
"""

_WEIGHT = """
weight_plane_{k} = Mul (part_{x}_x, part_{y}_y)
weight_all_{k} = Mul (weight_plane_{k}, part_{z}_z)
weight_{k} = Where (exists_{k}, weight_all_{k}, nought)
weight_column_{k} = Reshape (weight_{k}, column_shape)
sample_{k} = Mul (values_{k}, weight_column_{k})
"""


def expand_volume_sampling(expansion: Expansion) -> str:
    """Gathers the voxels around each point as rows of channels; one that does not exist is a row of zeros."""
    linear = expansion.fields["interpolation"] == 0
    body = [_SIZES, "minus_half = Neg (half)\ncolumn_shape = Concat <axis = 0> (all_points, i1)"]
    sides = ("low", "high") if linear else ("low",)
    for i, axis in enumerate(_AXES):
        body.append(_position(expansion, i, axis))
        body += [_INSIDE.format(a=axis, side=side) for side in sides]
    total = ""
    for k, (z, y, x) in enumerate(product(sides, repeat=3)):
        corner = _CORNER + _WEIGHT if linear else _CORNER
        body.append(corner.format(k=k, x=x, y=y, z=z))
        sample = f"sample_{k}" if linear else f"values_{k}"
        body.append(f"sum_{k} = Add ({total}, {sample})" if total else "")
        total = f"sum_{k}" if total else sample
    body.append(f"""
    apart_shape = Concat <axis = 0> (n, points, c)
    apart = Reshape ({total}, apart_shape)
    channels_first = Transpose <perm = [0, 2, 1]> (apart)
    output_shape = Concat <axis = 0> (n, c, point_shape)
    output = Reshape (channels_first, output_shape)""")
    return "\n".join(body)


def _position(expansion: Expansion, i: int, axis: str) -> str:
    """Where each point lies along an axis, in voxels, after padding, and the voxels beside it."""
    fields = expansion.fields
    aligned = fields["align_corners"] == 1
    parts = [_COORDINATE, _ALIGNED if aligned else _MIDDLES, _NAN]
    parts.append((_ZEROS, _BORDER, _REFLECTION)[fields["padding"]])
    parts.append(_LINEAR if fields["interpolation"] == 0 else _NEAREST)
    return "\n".join(parts).format(
        a=axis,
        i=i,
        next=i + 1,
        instead="far" if fields["padding"] == 0 else "nought",
        span=f"Identity (end_{axis})" if aligned else f"Identity (extent_{axis})",
        from_low=f"Identity (finite_{axis})" if aligned else f"Add (finite_{axis}, half)",
        to_low=f"Identity (nearer_{axis})" if aligned else f"Sub (nearer_{axis}, half)",
    )
