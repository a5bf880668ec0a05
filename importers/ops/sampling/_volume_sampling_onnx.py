"""Writes sampling in volumes in standard ONNX operators of opset 11."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion, Fields

_FAR = -9.0


class _Voxel(NamedTuple):
    """A voxel beside each point along one axis: its number, whether there is one, and the point's share of it."""

    number: Value
    inside: Value
    share: Value | None


def expand_volume_sampling(expansion: Expansion) -> Value:
    """Gathers the voxels around each point as rows of channels; one that does not exist is a row of zeros."""
    g = Builder(expansion.opset)
    x_shape = g.Shape("x")
    n, c, depth, height, width = (x_shape[i : i + 1] for i in range(5))
    plane = height * width
    voxels = plane * depth
    all_voxels = n * voxels
    point_shape = g.Shape("grid")[1:4]
    points = g.ReduceProd(point_shape, keepdims=1)
    channels_last = g.Transpose(g.Reshape("x", [n, c, voxels]), perm=[0, 2, 1])
    rows = g.Concat(g.Reshape(channels_last, [all_voxels, c]), g.Expand(0.0, [1, c]), axis=0)
    all_points = n * points
    place_shape = g.vector(n, points)
    places = g.Reshape("grid", [n, points, 3])
    first = g.Reshape(g.arange(n) * voxels, [n, 1])
    column_shape = g.vector(all_points, 1)

    def beside(i: int, size: Value) -> list[_Voxel]:
        given = g.Reshape(g.Slice(places, [i], [i + 1], [2]), place_shape)
        extent = g.Cast(size, to="float32")
        end = extent - 1.0
        place = _padded(g, expansion.fields, given, extent, end)

        def voxel(number: Value, share: Value | None = None) -> _Voxel:
            inside = (number > -0.5) & (number < end + 0.5)
            return _Voxel(g.Cast(g.Where(inside, number, 0.0), to="int64"), inside, share)

        if expansion.fields["interpolation"] != 0:
            return [voxel(g.Round(place))]
        low = g.Floor(place)
        share = place - low
        return [voxel(low, 1.0 - share), voxel(low + 1.0, share)]

    total: Value | None = None
    along_x, along_y, along_z = (beside(i, size) for i, size in enumerate((width, height, depth)))
    for z, y, x in product(along_z, along_y, along_x):
        exists = x.inside & y.inside & z.inside
        voxel = z.number * plane + y.number * width + x.number
        index = g.Where(exists, voxel + first, all_voxels)
        sample = g.Gather(rows, g.Reshape(index, all_points), axis=0)
        if x.share is not None and y.share is not None and z.share is not None:
            weight = g.Where(exists, x.share * y.share * z.share, 0.0)
            sample = sample * g.Reshape(weight, column_shape)
        total = sample if total is None else total + sample
    channels_first = g.Transpose(g.Reshape(total, [n, points, c]), perm=[0, 2, 1])
    return g.Reshape(channels_first, [n, c, point_shape])


def _padded(g: Builder, fields: Fields, given: Value, extent: Value, end: Value) -> Value:
    """Where each point lies along an axis, in voxels, after padding."""
    aligned, padding = fields["align_corners"] == 1, fields["padding"]
    from_one = given + 1.0
    at = from_one / 2.0 * end if aligned else (from_one * extent - 1.0) / 2.0
    at = g.Where(g.IsNaN(at), _FAR if padding == 0 else 0.0, at)
    if padding == 0:
        return g.Max(g.Min(at, extent + 2.0), _FAR)
    if padding == 2:  # reflection
        at = g.Where(g.IsInf(at), 0.0, at)
        period = g.Max(end if aligned else extent, 0.5) * 2.0
        inside = g.Mod(g.Abs(at if aligned else at + 0.5), period, fmod=1)
        nearer = g.Min(inside, period - inside)
        at = nearer if aligned else nearer - 0.5
    return g.Min(g.Max(at, 0.0), end)
