"""Sums samples of cameras' feature maps: deformable aggregation (Lin et al., Sparse4D v2, arXiv 2305.14018, 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import (
    Alias,
    Arrays,
    Case,
    Expansion,
    Fields,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops._shared import faults_of_int32, put_some, size_faults, size_of

_NEAREST = 1e-5
"""A camera's least depth."""


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": (*shapes["weights"][:2], shapes["features"][2])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    """Images, anchors, points, cameras, levels and groups must agree."""
    batch, anchors, points, cameras, levels, groups = shapes.get("weights", (None,) * 6)
    place = (points, 3) if "cameras" in shapes else (points, cameras, 2)
    table = {
        "features": (batch, None, None),
        "sizes": (cameras, levels, 2),
        "starts": (cameras, levels),
        "places": (batch, anchors, *place),
        "cameras": (batch, cameras, 4, 4),
        "image_sizes": (batch, cameras, 2),
    }
    if len(shapes.get("places", table["places"])) != len(table["places"]):
        return [f"places has {len(shapes['places'])} dimensions, not {len(table['places'])}"]
    rules = ((name, axis, right) for name, wanted in table.items() for axis, right in enumerate(wanted))
    faults = size_faults(shapes, *rules)
    if ("cameras" in shapes) != ("image_sizes" in shapes):
        faults.append("cameras and image_sizes must both be there, or neither")
    channels = size_of(shapes, "features", 2)
    if groups is not None and channels is not None and (groups == 0 or channels % groups):
        faults.append(f"features[2] = {channels}, which {groups} groups do not divide")
    return faults + faults_of_int32(shapes, ("features", 1), ("features", 2))


def _reference(_fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """Map by map and corner by corner, of all points at once."""
    given = {name: array.astype(np.float64) for name, array in inputs.items()}
    features, weights, places = given["features"], given["weights"], given["places"]
    batch, rows, channels = features.shape
    images = np.arange(batch)[:, None, None]
    output = np.zeros((*weights.shape[:2], channels))
    with np.errstate(all="ignore"):
        if "cameras" in given:
            known = np.concatenate([places, np.ones((*places.shape[:3], 1))], -1)
            u, v, depth, _ = np.moveaxis(np.einsum("bnij,bapj->bapni", given["cameras"], known), -1, 0)
            places = np.stack([u, v], -1) / depth[..., None] / given["image_sizes"][:, None, None]
            places[~(depth > _NEAREST)] = np.nan
        for camera, level in np.ndindex(*weights.shape[3:5]):
            height, width = map(int, inputs["sizes"][camera, level])
            start = int(inputs["starts"][camera, level])
            if min(height, width) < 1 or start < 0 or start + height * width > rows:
                continue
            x, y = np.moveaxis(places[..., camera, :], -1, 0)
            shares = np.repeat(weights[..., camera, level, :], channels // weights.shape[5], -1)
            x, y, counts = x * width - 0.5, y * height - 0.5, (x > 0) & (x < 1) & (y > 0) & (y < 1)
            for i, j in product((0, 1), (0, 1)):
                row, column = np.floor(y) + i, np.floor(x) + j
                inside = counts & (row >= 0) & (row < height) & (column >= 0) & (column < width)
                at = np.where(inside, start + row * width + column, 0).astype(np.int64)
                share = (1 - np.abs(y - row)) * (1 - np.abs(x - column))
                output += np.where(
                    inside[..., None], features[images, at] * share[..., None] * shares, 0
                ).sum(2)
    return {"output": output}


def _torch_reference(_fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """grid_sample of each map, in float32 at least."""
    import torch
    from torch.nn import functional

    exact = torch.promote_types(inputs["features"].dtype, torch.float32)
    features, weights, places = (inputs[name].to(exact) for name in ("features", "weights", "places"))
    output = features.new_zeros(*weights.shape[:2], features.shape[2])
    if "cameras" in inputs:
        cameras = inputs["cameras"].to(exact)[:, None, None]
        moved = (cameras[..., :3] * places[:, :, :, None, None]).sum(-1) + cameras[..., 3]
        depth = moved[..., 2:3]
        places = moved[..., :2] / depth / inputs["image_sizes"].to(exact)[:, None, None]
        places = torch.where(depth > _NEAREST, places, -1.0)
    counts = ((places > 0) & (places < 1)).all(-1, keepdim=True)
    grids = torch.where(counts, 2 * places - 1, -3.0)
    maps = zip(inputs["sizes"].tolist(), inputs["starts"].tolist(), strict=True)
    for camera, (sizes, starts) in enumerate(maps):
        for level, ((height, width), start) in enumerate(zip(sizes, starts, strict=True)):
            if min(height, width) < 1 or start < 0 or start + height * width > features.shape[1]:
                continue
            rows = features[:, start : start + height * width].transpose(1, 2).unflatten(2, (height, width))
            found = functional.grid_sample(rows, grids[:, :, :, camera], align_corners=False)
            shares = weights[:, :, :, camera, level].movedim(3, 1)  # [B, G, A, P]
            found = found.unflatten(1, (shares.shape[1], -1)) * shares[:, :, None]
            output += found.sum(-1).flatten(1, 2).transpose(1, 2)
    return (output.to(inputs["features"].dtype),)


def _projected(g: Builder) -> Value:
    """Key points in each camera's image as [B, A, P, cameras, 2]; sums, for products may be in TF32."""
    points = g.Unsqueeze("places", axes=[3, 4])  # [B, A, P, 1, 1, 3]
    cameras = g.Unsqueeze("cameras", axes=[1, 2])  # [B, 1, 1, cameras, 4, 4]
    turned = g.ReduceSum(points * g.Slice(cameras, [0], [3], [5]), axes=[5], keepdims=0)
    moved = turned + g.Squeeze(g.Slice(cameras, [3], [4], [5]), axes=[5])
    depth = g.Slice(moved, [2], [3], [4])
    ahead = depth > _NEAREST
    pixels = g.Slice(moved, [0], [2], [4]) / g.Where(ahead, depth, 1.0)
    return g.Where(ahead, pixels / g.Unsqueeze("image_sizes", axes=[1, 2]), -1.0)


def _expand(expansion: Expansion) -> Value:
    """Gathers the pixels around each place as rows of channels; one that does not count is a row of zeros."""
    g = Builder(expansion.opset)
    places = _projected(g) if "cameras" in expansion.present else Value(g, "places")
    batch, rows, channels = (g.Shape("features")[i : i + 1] for i in range(3))
    all_rows = batch * rows
    table = g.Concat(g.Reshape("features", [all_rows, channels]), g.Expand(0.0, [1, channels]), axis=0)
    first = g.Reshape(g.arange(batch) * rows, [batch, 1, 1, 1, 1])
    sizes, start = g.Cast("sizes", to="int64"), g.Cast("starts", to="int64")
    height, width = (g.Squeeze(g.Slice(sizes, [i], [i + 1], [2]), axes=[2]) for i in (0, 1))
    fits = (height > 0) & (width > 0) & (start > -1) & (rows - height * width - start > -1)
    counts, pixels = fits, []
    for axis, size in ((1, height), (0, width)):
        place = g.Slice(places, [axis], [axis + 1], [4])
        within = (place > 0.0) & (place < 1.0)
        counts = counts & within  # [B, A, P, cameras, levels]
        extent = g.Cast(size, to="float32")
        pixel = g.Where(within, place, 0.5) * extent - 0.5
        low = g.Floor(pixel)
        share = pixel - low
        pixels.append([(low, 1.0 - share, low > -0.5), (low + 1.0, share, low < extent - 1.5)])
    total: Value | None = None
    for (row, down, above), (column, across, beside) in product(*pixels):
        there = counts & above & beside
        at = g.Cast(g.Where(there, row, 0.0), to="int64") * width + g.Cast(column, to="int64")
        found = g.Gather(table, g.Where(there, at + start + first, all_rows), axis=0)
        found = found * g.Unsqueeze(g.Where(there, down * across, 0.0), axes=[5])
        total = found if total is None else total + found
    outer, groups = g.Shape("weights")[:2], g.Shape("weights")[5:6]
    samples = g.ReduceProd(g.Shape("weights")[2:5], keepdims=1)
    each = g.Div(channels, groups)
    shares = g.Where(g.Unsqueeze(counts, axes=[5]), "weights", 0.0)
    parts = g.Reshape(total, [outer, samples, groups, each]) * g.Reshape(shares, [outer, samples, groups, 1])
    return g.Reshape(g.ReduceSum(parts, axes=[2], keepdims=0), [outer, channels])


Maps = tuple[tuple[tuple[int, int], ...], ...]
"""(height, width) of each camera's levels."""


def _case(
    name: str, batch: int, anchors: int, points: int, groups: int, each: int, maps: Maps, **marks: Any
) -> Case:
    """each: channels of a group. strange: places that are no numbers, or at borders; maps that are not there."""
    strange, projected = marks.pop("strange", False), marks.pop("projected", False)

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        low, high = (-0.4, 1.4) if points > 1 else (0.3, 0.7)
        sizes = np.array(maps, np.int64).reshape(len(maps), -1, 2)
        cameras, levels = sizes.shape[:2]
        order = rng.permutation(cameras * levels)
        areas = sizes.prod(-1).reshape(-1)[order]
        starts = np.zeros(cameras * levels, np.int64)
        starts[order] = np.cumsum(areas) - areas
        outer = (batch, anchors, points)
        made = {
            "features": rng.normal(size=(batch, areas.sum() + 3, groups * each)),
            "sizes": sizes,
            "starts": starts.reshape(cameras, levels),
            "places": rng.uniform(low, high, (*outer, cameras, 2)),
            "weights": rng.normal(size=(*outer, cameras, levels, groups)),
        }
        if projected:
            made["places"] = rng.uniform(-2, 2, (*outer, 3))
            made["cameras"] = rng.uniform(-1, 1, (batch, cameras, 4, 4))
            made["image_sizes"] = rng.uniform(1, 3, (batch, cameras, 2))
        if strange:
            put_some(rng, 0.2, made["places"], [np.nan, np.inf, -np.inf, 0.0, 1.0, -1e9])
            made["starts"][0, 0], made["starts"][-1, -1], made["sizes"][-1, 0] = -1, areas.sum(), (-2, -3)
        return made

    return Case(name, {}, make, **marks)


_PYRAMID = (((64, 176), (32, 88), (16, 44), (8, 22)),) * 6
_UNLIKE = (((3, 5), (1, 4)), ((4, 1), (2, 6)), ((2, 2), (1, 1)))

# Sparse4D v3 on nuScenes: images of 256 x 704 at strides 4 to 32.
_BENCHMARKS = (
    _case("sparse4d_v3", 1, 900, 13, 8, 32, _PYRAMID, large=True),
    _case("sparse4d_v3_key_points", 1, 900, 13, 8, 32, _PYRAMID, large=True, projected=True),
)

_CASES = (
    _case("one_of_each", 1, 1, 1, 1, 1, (((1, 1),),)),
    _case("unlike_maps", 2, 5, 3, 4, 2, _UNLIKE),
    _case("whole_vectors", 2, 5, 7, 2, 16, _UNLIKE),
    _case("odd_channels", 1, 3, 4, 3, 7, _UNLIKE),
    _case("more_channels_than_a_block", 1, 2, 3, 1, 4104, _UNLIKE),
    _case("more_points_than_a_block", 1, 3, 101, 2, 8, _UNLIKE),
    _case("key_points", 2, 4, 5, 2, 8, _UNLIKE, projected=True),
    _case("strange_places", 2, 9, 7, 2, 8, _UNLIKE, strange=True),
    _case("strange_key_points", 2, 9, 7, 2, 8, _UNLIKE, strange=True, projected=True),
    _case("no_points", 2, 3, 0, 2, 4, _UNLIKE),
    _case("no_anchors", 2, 0, 3, 2, 4, _UNLIKE),
    _case("no_channels", 2, 3, 4, 1, 0, _UNLIKE),
    _case("no_batch", 0, 3, 4, 2, 4, _UNLIKE),
    _case("tiles", 2, 300, 13, 8, 8, (((16, 44), (8, 22)),) * 6, large=True, tiles=True),
    *_BENCHMARKS,
)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """Four products of each sample's channels, and one with its weight."""
    return Work(flops=10 * shapes["features"][2] * int(np.prod(shapes["weights"][:5])))


def _aliases(op_type: str, domain: str, source: str) -> tuple[Alias, Alias]:
    maps = ("features", "sizes", "starts", "places")
    return (
        Alias(op_type, (domain,), (*maps, "weights"), source),
        Alias(op_type, (domain,), (*maps, "cameras", "image_sizes", "weights"), source),
    )


FEATURE_AGGREGATION = OpDef(
    name="FeatureAggregation",
    doc=(
        "Weighted sums of bilinear samples, over points, cameras and levels of maps, as in Sparse4D. A point counts in a "
        "camera where both coordinates are more than 0 and less than 1; pixel = place * size - 0.5, with zeros outside. A "
        "map that is not within the rows counts as nothing. With cameras, places are key points, which they project: "
        "(u, v, depth) = camera (x, y, z, 1), and the place is (u, v) / depth / image_size for a depth of more than 1e-5."
    ),
    inputs=(
        Port("features", "T", 3, "[B, F, C] pixels of all maps, row by row"),
        Port("sizes", "I", 3, "[cameras, L, 2] (height, width) of each map"),
        Port("starts", "I", 2, "[cameras, L] first row of each map in F, in any order"),
        Port(
            "places",
            "F",
            None,
            "[B, A, P, cameras, 2] (x, y), or key points [B, A, P, 3]",
            positions=True,
            meaning=Meaning.SHARE,
        ),
        Port("weights", "T", 6, "[B, A, P, cameras, L, G]: G divides C; channel c is of group c // (C / G)"),
        Port("cameras", "F", 4, "[B, cameras, 4, 4], lidar2img", optional=True, positions=True),
        Port("image_sizes", "F", 3, "[B, cameras, 2] (width, height)", optional=True, positions=True),
    ),
    outputs=(Port("output", "T", 3, "[B, A, C]"),),
    fields=(),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=_expand,
    aliases=(
        *_aliases(
            "DeformableAttentionAggrPlugin",
            "custom",
            "ThomasVonWu/SparseEnd2End, deploy/dfa_plugin: Sparse4D's deformable_aggregation_cuda.cu",
        ),
        *_aliases("MSDA", "nv", "NVIDIA/tao_pytorch_backend, cv/sparse4d/utils/onnx_export.py"),
    ),
    cases=_CASES,
    tolerance={"float32": 8e-6, "float16": 4.5e-4, "bfloat16": 3.4e-3},
    benchmarks=_BENCHMARKS,
    baselines={"grid_sample": _torch_reference},
    work=_work,
)
