"""Samples volumes at points: GridSample of ONNX in three dimensions (Jaderberg et al., arXiv 1506.02025, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Arrays, Case, Expansion, Field, Fields, Kind, OpDef, Port, Shapes, Work
from trtsmith.importers.ops._shared import Made, faults_of_int32, flag, put_some, size_faults, size_of

_FAR = -9.0


class _Voxel(NamedTuple):
    """A voxel beside each point along one axis: its number, whether there is one, and the point's share of it."""

    number: Value
    inside: Value
    share: Value | None


def expand_volume_sampling(expansion: Expansion) -> Value:
    """Gathers the voxels around each point as rows of channels; a voxel outside is a row of zeros."""
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


Sizes = tuple[int, int, int]

LINEAR, NEAREST = range(2)
ZEROS, BORDER, REFLECTION = range(3)


def _fields(interpolation: int, padding: int, aligned: int) -> Fields:
    return {"interpolation": interpolation, "padding": padding, "align_corners": aligned}


def _scattered(
    rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int
) -> np.ndarray:
    """Anywhere in the volume and around it, at least a tenth of a voxel away from what two voxels are as near to."""
    size = np.array(volume[::-1])
    at = rng.integers(-2, size + 2, (batch, *points, 3)) + rng.uniform(-0.4, 0.4, (batch, *points, 3))
    grid: np.ndarray = 2 * at / np.maximum(size - 1, 1) - 1 if aligned else (2 * at + 1) / size - 1
    return grid


def _smooth(rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int) -> np.ndarray:
    """A grid over the volume, a little turned: neighbouring points have neighbouring voxels."""
    axes = [np.linspace(-0.95, 0.95, count) for count in points]
    z, y, x = np.meshgrid(*axes, indexing="ij")
    grid = np.stack([x + 0.05 * y, y - 0.05 * x, z], axis=-1)
    return np.broadcast_to(grid, (batch, *points, 3)) + rng.uniform(-0.002, 0.002, (batch, *points, 3))


def _strange(rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int) -> np.ndarray:
    """Some coordinates NaN, infinite, or outside by several volumes; what float32 makes of these is exact."""
    grid = _scattered(rng, batch, volume, points, aligned)
    put_some(rng, 0.2, grid, [np.nan, np.inf, -np.inf, 17.25, -40.0])
    return grid


def _corners(rng: np.random.Generator, batch: int, volume: Sizes, points: Sizes, aligned: int) -> np.ndarray:
    """On the corners of the volume and in its middle, and an eighth beside them."""
    return rng.choice([-1.125, -1.0, -0.875, 0.0, 0.875, 1.0, 1.125], (batch, *points, 3))


def _case(
    name: str,
    x: tuple[int, int, int, int, int],
    points: Sizes,
    fields: tuple[int, int, int] = (LINEAR, ZEROS, 0),
    grid: Callable[..., np.ndarray] = _scattered,
    **marks: bool,
) -> Case:
    def make(rng: np.random.Generator) -> Made:
        return {"x": rng.normal(size=x), "grid": grid(rng, x[0], x[2:], points, fields[2])}

    return Case(name, _fields(*fields), make, **marks)


BENCHMARKS = (
    # Volumes of a network for occupancy or for registration: points anywhere, and points on a grid that is a little turned.
    _case("random_32x16x64x64", (2, 32, 16, 64, 64), (16, 64, 64), large=True),
    _case("smooth_32x16x64x64", (2, 32, 16, 64, 64), (16, 64, 64), grid=_smooth, large=True),
    _case(
        "registration_2x96x96x96", (1, 2, 96, 96, 96), (96, 96, 96), (LINEAR, BORDER, 1), _smooth, large=True
    ),
)

CASES = (
    _case("one_of_each", (1, 1, 1, 1, 1), (1, 1, 1), (LINEAR, BORDER, 0)),
    _case("linear_zeros", (2, 3, 4, 5, 6), (3, 4, 5)),
    _case("linear_zeros_aligned", (2, 3, 4, 5, 6), (3, 4, 5), (LINEAR, ZEROS, 1)),
    _case("linear_border", (2, 3, 4, 5, 6), (3, 4, 5), (LINEAR, BORDER, 0)),
    _case("linear_border_aligned", (1, 2, 4, 5, 6), (3, 4, 5), (LINEAR, BORDER, 1)),
    _case("linear_reflection", (2, 3, 4, 5, 6), (3, 4, 5), (LINEAR, REFLECTION, 0)),
    _case("linear_reflection_aligned", (1, 2, 4, 5, 6), (3, 4, 5), (LINEAR, REFLECTION, 1)),
    _case("nearest_zeros", (2, 3, 4, 5, 6), (3, 4, 5), (NEAREST, ZEROS, 0)),
    _case("nearest_border_aligned", (2, 3, 4, 5, 6), (3, 4, 5), (NEAREST, BORDER, 1)),
    _case("nearest_reflection", (1, 3, 4, 5, 6), (3, 4, 5), (NEAREST, REFLECTION, 0)),
    _case("whole_vectors", (2, 16, 4, 6, 5), (5, 6, 7)),
    _case("whole_vectors_nearest", (2, 32, 4, 6, 5), (5, 6, 7), (NEAREST, REFLECTION, 1)),
    _case("odd_channels", (2, 13, 4, 6, 5), (5, 6, 7), (LINEAR, BORDER, 0)),
    _case("more_channels_than_a_slice", (1, 45, 3, 5, 6), (5, 5, 6), (LINEAR, REFLECTION, 0)),
    _case("few_points_in_much", (1, 24, 7, 9, 11), (2, 3, 4)),
    _case("corners", (2, 9, 4, 5, 6), (4, 5, 6), grid=_corners),
    _case("corners_reflected", (2, 9, 4, 5, 6), (4, 5, 6), (LINEAR, REFLECTION, 0), _corners),
    _case("strange_depth_of_one_voxel", (1, 8, 1, 5, 6), (3, 4, 5), (LINEAR, REFLECTION, 1)),
    _case("strange_places", (2, 9, 4, 6, 8), (5, 6, 7), grid=_strange),
    _case("strange_places_at_the_border", (2, 9, 4, 6, 8), (5, 6, 7), (LINEAR, BORDER, 1), _strange),
    _case("strange_places_reflected", (2, 9, 4, 6, 8), (5, 6, 7), (LINEAR, REFLECTION, 0), _strange),
    _case("strange_places_nearest", (2, 9, 4, 6, 8), (5, 6, 7), (NEAREST, ZEROS, 0), _strange),
    _case("smooth", (1, 8, 6, 7, 9), (6, 7, 9), grid=_smooth),
    _case("no_points", (2, 3, 4, 5, 6), (3, 0, 5)),
    _case("no_channels", (2, 0, 4, 5, 6), (3, 4, 5)),
    _case("no_batch", (0, 3, 4, 5, 6), (3, 4, 5)),
    _case("tiles", (2, 40, 8, 16, 16), (8, 18, 17), large=True, tiles=True),
    _case("tiles_apart", (2, 5, 8, 16, 16), (8, 18, 17), (NEAREST, BORDER, 0), large=True, tiles=True),
    *BENCHMARKS,
)


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": (*shapes["x"][:2], *shapes["grid"][1:4])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = size_faults(shapes, ("grid", 0, "x", 0), ("grid", 4, 3))
    empty = (axis for axis in (2, 3, 4) if size_of(shapes, "x", axis) == 0)
    faults += [f"x[{axis}] = 0: there is nothing to sample" for axis in empty]
    return faults + faults_of_int32(shapes, ("x", 2), ("x", 3), ("x", 4))


def _places(fields: Fields, given: np.ndarray, size: int) -> np.ndarray:
    """Where coordinates from -1 to 1 lie along an axis, in voxels, after padding. NaN where there is none."""
    low, high = (0.0, size - 1.0) if fields["align_corners"] else (-0.5, size - 0.5)
    with np.errstate(invalid="ignore"):
        at = (given + 1) / 2 * (high - low) + low
        if fields["padding"] == ZEROS:
            return at
        if fields["padding"] == REFLECTION:
            at = np.where(np.isfinite(at), at, 0.0)
            if high > low:
                turns, inside = np.divmod(at - low, high - low)
                at = low + np.where(turns % 2 == 0, inside, high - low - inside)
        return np.clip(np.nan_to_num(at, nan=0.0, posinf=size, neginf=-1), 0, size - 1)


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Corner by corner of all points' cells, or the nearest voxels."""
    x, grid = inputs["x"].astype(np.float64), inputs["grid"].astype(np.float64)
    batch, channels, *sizes = x.shape
    at = np.stack([_places(fields, grid[..., 2 - axis], size) for axis, size in enumerate(sizes)])
    known = (np.abs(at) < 2**60).all(0)
    at = np.where(known, at, -9.0)
    nearest = fields["interpolation"] == NEAREST
    low = np.round(at) if nearest else np.floor(at)
    image = np.arange(batch)[:, None, None, None]
    output = np.zeros((*grid.shape[:4], channels))
    for corner in np.ndindex((1, 1, 1) if nearest else (2, 2, 2)):
        voxel = low + np.reshape(corner, (3, 1, 1, 1, 1))
        ends = np.reshape(sizes, (3, 1, 1, 1, 1))
        exists = np.all((voxel >= 0) & (voxel < ends), axis=0)
        slab, row, column = np.where(exists, voxel, 0).astype(np.int64)
        weight = exists if nearest else exists * np.prod(1 - np.abs(at - voxel), axis=0)
        output += np.where(exists[..., None], weight[..., None] * x[image, :, slab, row, column], 0)
    return {"output": output.transpose(0, 4, 1, 2, 3)}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """grid_sample, in float32 at least. It has no rule for what is not finite, which is therefore kept from it."""
    import torch
    import torch.nn.functional as functional

    x, grid = inputs["x"], inputs["grid"]
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    points = grid.to(exact)
    if x.numel() == 0 or grid.numel() == 0:
        return (x.new_zeros(*x.shape[:2], *grid.shape[1:4]),)
    aligned, padding = bool(fields["align_corners"]), fields["padding"]
    if padding == BORDER:
        points = torch.nan_to_num(points, nan=-1.0).clamp(-2, 2)
    elif padding == REFLECTION:
        sizes = torch.tensor(x.shape[:1:-1], device=x.device)
        first = torch.full((3,), -1.0, device=x.device, dtype=exact) if aligned else 1 / sizes.to(exact) - 1
        points = torch.where(points.isfinite(), points, first)
    exists = torch.ones_like(points[..., 0], dtype=torch.bool)
    if padding == ZEROS:  # with one voxel and aligned corners every number lies at 0
        exists = points.isfinite().all(-1)
        points = torch.where(exists[..., None], points, 0).clamp(-1e6, 1e6)
    output = functional.grid_sample(
        x.to(exact),
        points,
        mode="nearest" if fields["interpolation"] == NEAREST else "bilinear",
        padding_mode=("zeros", "border", "reflection")[padding],
        align_corners=aligned,
    )
    output = torch.where(exists[:, None], output, 0)
    return (output.to(x.dtype),)


def _grid_sample(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """What PyTorch code does."""
    import torch.nn.functional as functional

    output = functional.grid_sample(
        inputs["x"],
        inputs["grid"],
        mode="nearest" if fields["interpolation"] == NEAREST else "bilinear",
        padding_mode=("zeros", "border", "reflection")[fields["padding"]],
        align_corners=bool(fields["align_corners"]),
    )
    return (output,)


def _work(fields: Fields, shapes: Shapes) -> Work:
    batch, channels = shapes["x"][:2]
    _, *points, _ = shapes["grid"]
    corners = 1 if fields["interpolation"] == NEAREST else 8
    return Work(flops=2 * corners * batch * channels * points[0] * points[1] * points[2])


VOLUME_SAMPLING = OpDef(
    name="VolumeSampling",
    onnx="GridSample",
    doc=(
        "Samples of volumes at points (x, y, z) from -1 to 1, linear between voxels or the nearest voxel, of two as near "
        "the even one. Beyond the volume are zeros, its border, or its reflection. A point that is NaN has no voxel where "
        "zeros are beyond, or else lies at the first one along that axis, as does an infinite one that is reflected."
    ),
    inputs=(
        Port("x", "T", 5, "[N, C, D, H, W]"),
        Port("grid", "T", 5, "[N, d, h, w, 3], (x, y, z) of each point", positions=True),
    ),
    outputs=(Port("output", "T", 5, "[N, C, d, h, w]"),),
    fields=(
        flag("interpolation", "0: linear, 1: the nearest voxel"),
        Field("padding", Kind.INT, "0: zeros, 1: the border, 2: reflection", default=0, allowed=(0, 1, 2)),
        flag("align_corners", "1: -1 and 1 are the middles of the outer voxels; 0: the ends of the volume"),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand_volume_sampling,
    cases=CASES,
    tolerance={"float32": 1.1e-5, "float16": 4.4e-4, "bfloat16": 4e-3},
    benchmarks=BENCHMARKS,
    baselines={"grid_sample": _grid_sample},
    work=_work,
    workspace=True,
)
