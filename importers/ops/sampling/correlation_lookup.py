"""Looks up windows of correlation volumes (Teed and Deng, RAFT, arXiv 2003.12039, 3.2), as RAFT-Stereo and DROID-SLAM do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import TO_END, Builder, Value, bounded
from trtsmith.importers.opdef import (
    Alias,
    Arrays,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
    attrs,
)
from trtsmith.importers.ops._shared import put_some, size_faults, size_of

MOST_RADIUS = 32
MOST_SIDE = 2**23
_FAR = float(2**25)
"""A place as far as this from 0 is outside of any volume."""


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, height, width, *sizes = shapes["volume"]
    return {"output": (batch, *[2 * fields["radius"] + 1] * len(sizes), height, width)}


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    volume, axes = shapes.get("volume"), size_of(shapes, "places", 1)
    if volume is not None:
        if len(volume) not in (4, 5):
            return [f"volume has {len(volume)} dimensions, not 4 or 5"]
        faults = size_faults(shapes, *(("places", axis, volume[i]) for i, axis in enumerate((0, 2, 3))))
        if axes is not None and (axes < 1 or axes < len(volume) - 3):
            faults.append(f"places[1] = {axes}, not {len(volume) - 3}")
        for axis in range(3, len(volume)):
            size = volume[axis]
            if size is not None and (size == 0 or size > MOST_SIDE):
                faults.append(f"volume[{axis}] = {size}, not from 1 to 2^23")
    if fields["radius"] > MOST_RADIUS:
        faults.append(f"radius = {fields['radius']}, more than {MOST_RADIUS}")
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Sample by sample of the window, each of all pixels at once; a volume of lines has one row."""
    volume = inputs["volume"].astype(np.float64)
    lines = volume.ndim == 4
    volume = volume[..., None, :] if lines else volume
    places = inputs["places"].astype(np.float64)
    places = np.stack([places[:, 0], np.zeros(places[:, 0].shape) if lines else places[:, 1]])
    known = (np.abs(places) < _FAR).all(0)
    x, y = np.where(known, places, -_FAR)
    n, h, w = np.indices(x.shape)
    reach = range(-fields["radius"], fields["radius"] + 1)
    output = np.zeros((len(reach), 1 if lines else len(reach), *x.shape))
    for i, j in np.ndindex(*output.shape[:2]):
        across, down = x + reach[i], y if lines else y + reach[j]
        for corner in np.ndindex(2, 2):
            row, column = np.floor(down) + corner[0], np.floor(across) + corner[1]
            inside = (row >= 0) & (row < volume.shape[3]) & (column >= 0) & (column < volume.shape[4])
            share = np.where(inside, (1 - np.abs(down - row)) * (1 - np.abs(across - column)), 0)
            row, column = (np.where(inside, side, 0).astype(np.int64) for side in (row, column))
            output[i, j] += share * volume[n, h, w, row, column]
    output = np.moveaxis(output, 2, 0)
    return {"output": output[:, :, 0] if lines else output}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """grid_sample of each pixel's own map, as RAFT does it, in float32 at least."""
    import torch
    from torch.nn import functional

    exact = torch.promote_types(inputs["volume"].dtype, torch.float32)
    volume, places = inputs["volume"].to(exact), inputs["places"].to(exact)
    batch, height, width, *sizes = volume.shape
    reach = torch.arange(-fields["radius"], fields["radius"] + 1, device=volume.device, dtype=exact)
    output = volume.new_zeros((batch * height * width, *[len(reach)] * len(sizes)))
    if volume.numel():
        maps = volume.reshape(-1, 1, sizes[0] if len(sizes) == 2 else 1, sizes[-1])
        places = places[:, : len(sizes)].movedim(1, -1).reshape(-1, len(sizes))
        known = (places.abs() < _FAR).all(-1)
        places = torch.where(known[:, None], places, -1000.0)
        x = (places[:, :1] + reach)[:, :, None]
        y = (places[:, 1:] + reach)[:, None] if len(sizes) == 2 else torch.zeros_like(x)
        grid = torch.stack(
            torch.broadcast_tensors((2 * x + 1) / sizes[-1] - 1, (2 * y + 1) / maps.shape[2] - 1), -1
        )
        output = functional.grid_sample(maps, grid, align_corners=False).reshape(output.shape)
    output = output.unflatten(0, (batch, height, width)).movedim((1, 2), (-2, -1))
    return (output.to(inputs["volume"].dtype),)


def _expand(expansion: Expansion) -> Value:
    """Gathers the pixels around each place once: samples of a window have the same fractions. A line is a map of one row."""
    g = Builder(expansion.opset)
    radius = expansion.fields["radius"]
    taps = bounded(2 * radius + 2)
    shape = g.Shape("volume")
    outer, rank = shape[:3], g.Shape(shape)
    maps = rank > 4
    sizes = g.Slice(g.Concat([1], shape[3:], axis=0), [-2], [TO_END])
    x = g.Slice("places", [0], [1], [1])
    y = g.Where(maps, g.Gather("places", rank - 4, axis=1), 0.0)
    pixels, known, shares = [], [], []
    for axis, place in enumerate((y, x)):
        place = g.Unsqueeze(g.Transpose(place, perm=[0, 2, 3, 1]), axes=[4])
        place = g.Where(g.Abs(place) < _FAR, place, -_FAR)
        low = g.Floor(place)
        shares.append(place - low)
        pixel = g.Cast(low, to="int64") + np.arange(-radius, radius + 2).reshape(
            (-1, 1) if axis == 0 else (1, -1)
        )
        pixels.append(pixel)
        known.append(g.Not(pixel < 0) & (pixel < sizes[axis : axis + 1]))
    inside = known[0] & known[1]
    at = g.Reshape(g.Where(inside, pixels[0] * sizes[1:2] + pixels[1], 0), [outer, taps * taps])
    flat = g.Reshape("volume", [outer, sizes[:1] * sizes[1:2]])
    values = g.Reshape(g.GatherElements(flat, at, axis=3), [outer, taps, taps])
    values = g.Where(inside, values, 0.0)
    for axis, share in enumerate(shares, 3):
        before, after = g.Slice(values, [0], [-1], [axis]), g.Slice(values, [1], [TO_END], [axis])
        values = before + share * (after - before)
    first = g.Where(maps, 0, radius)
    values = g.Slice(values, first, first + g.Where(maps, taps - 1, 1), [3])
    window = g.Expand(taps - 1, rank - 3)
    return g.Reshape(g.Transpose(values, perm=[0, 4, 3, 1, 2]), [outer[:1], window, outer[1:3]])


def _case(name: str, volume: tuple[int, ...], radius: int, axes: int = 2, **marks: Any) -> Case:
    """strange: places that are no numbers, far away, or at whole pixels."""
    strange = marks.pop("strange", False)

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        batch, height, width, *sizes = volume
        beyond = radius + 2 if max(sizes) > 1 else 0
        places = rng.uniform(-beyond, max(sizes) + beyond, (batch, axes, height, width))
        if strange:
            put_some(rng, 0.3, places, [np.nan, np.inf, -np.inf, -1e30, 3e9, -1.0, 0.0, 2.0])
        return {"volume": rng.normal(size=volume), "places": places}

    return Case(name, {"radius": radius}, make, **marks)


# RAFT-Stereo on 544 x 960, the first level; DROID-SLAM's 24 edges of 384 x 512.
_BENCHMARKS = (
    _case("raft_stereo", (1, 136, 240, 240), 4, 1, large=True),
    _case("droid_slam", (24, 48, 64, 48, 64), 3, large=True),
)

_CASES = (
    _case("one_of_each", (1, 1, 1, 1), 0, 1),
    _case("lines", (2, 3, 5, 7), 4, 1),
    _case("lines_and_two_axes", (2, 3, 5, 7), 2),
    _case("maps", (2, 5, 9, 6, 7), 3),
    _case("maps_of_one_row", (1, 4, 5, 1, 6), 2),
    _case("radius_0", (1, 9, 17, 5, 6), 0),
    _case("large_radius", (1, 2, 3, 9, 11), 17),
    _case("strange_places_in_lines", (1, 13, 11, 31), 4, strange=True),
    _case("strange_places_in_maps", (2, 5, 9, 6, 7), 3, strange=True),
    _case("no_pixels", (2, 0, 3, 4, 5), 1),
    _case("no_batch", (0, 2, 3, 4), 1, 1),
    _case("tiles", (2, 37, 41, 9, 10), 3, large=True, tiles=True),
    *_BENCHMARKS,
)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """A sum and a product along each axis."""
    return Work(flops=3 * (len(shapes["volume"]) - 3) * int(np.prod(shapes["output"])))


CORRELATION_LOOKUP = OpDef(
    name="CorrelationLookup",
    doc=(
        "Windows of correlation volumes: of each pixel the values of its own map, or line, around a place, linear between "
        "whole pixels and zero outside. Sample i of a window is i - radius from the place, x before y. Nothing is around a "
        "place that is not finite, or 2^25 or more from 0. In a volume of lines x alone counts."
    ),
    inputs=(
        Port("volume", "T", None, "[N, H, W, columns], or [N, H, W, rows, columns]"),
        Port("places", "F", 4, "[N, 2, H, W] (x, y); [N, 1, H, W] for lines, too", positions=True),
    ),
    outputs=(Port("output", "T", None, "[N, 2 radius + 1, H, W], or [N, 2 radius + 1, 2 radius + 1, H, W]"),),
    fields=(Field("radius", Kind.INT, f"of the window, at most {MOST_RADIUS}", minimum=0),),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        Alias(
            "CorrSampler",
            ("corr_sampler", "droid_backends"),
            ("volume", "places"),
            "princeton-vl/RAFT-Stereo, sampler/sampler_kernel.cu; DROID-SLAM, src/correlation_kernels.cu: users' own nodes",
            attrs(radius=int),
        ),
    ),
    cases=_CASES,
    tolerance={"float32": 2e-6, "float16": 4e-4, "bfloat16": 3.4e-3},
    benchmarks=_BENCHMARKS,
    baselines={"grid_sample": _torch_reference},
    work=_work,
)
