"""Multi-scale deformable attention (Zhu et al., Deformable DETR, arXiv 2010.04159, equation 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import Arrays, Case, Fields, OpDef, Port, Shapes
from trtsmith.importers.ops._multiscale_deformable_attention import (
    ALIASES,
    BENCHMARKS,
    DETECTOR,
    expand,
    stored,
    work,
)
from trtsmith.importers.ops._shared import STRANGE, put_every, size_faults


def _inputs(
    batch: int,
    heads: int,
    channels: int,
    queries: int,
    points: int,
    levels: tuple[tuple[int, int], ...],
    **options: Any,
) -> Any:
    """A generator of inputs: `order` stores levels in another order, `spread` puts locations outside [0, 1].

    `unread` makes the last pixel of each level, 4 x 4 at least, NaN or infinite, and has no location near it: some lie
    beyond it, where a kernel that moves samples onto the level reads it nevertheless.
    """

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        starts, count = stored(levels, options.get("order", range(len(levels))))
        shape = (batch, queries, heads, len(levels), points)
        spread = options.get("spread", 0.2)
        locations = rng.uniform(-spread, 1 + spread, (*shape, 2))
        if options.get("strange"):
            put_every(7, locations, (*STRANGE, 1e9))
        weights = np.exp(rng.normal(size=shape))
        weights /= np.maximum(weights.sum(axis=(-1, -2), keepdims=True), 1e-12)
        value = rng.normal(size=(batch, count + options.get("spare", 0), heads, channels))
        if options.get("unread"):
            locations *= 0.5
            locations.reshape(-1, 2)[::5] = 1.3
            for level, (height, width) in enumerate(levels):
                value[:, starts[level] + height * width - 1] = np.nan if level % 2 == 0 else np.inf
        return {
            "value": value,
            "spatial_shapes": np.array(levels, np.int64).reshape(len(levels), 2),
            "level_start_index": starts,
            "sampling_locations": locations,
            "attention_weights": weights,
        }

    return make


def _case(name: str, *sizes: Any, large: bool = False, **options: Any) -> Case:
    return Case(name, {}, _inputs(*sizes, **options), large)


CASES = (
    _case("one_of_each", 1, 1, 1, 1, 1, ((1, 1),)),
    _case("odd", 2, 3, 5, 7, 3, ((5, 3), (2, 7), (1, 1))),
    _case("two_levels", 2, 8, 32, 33, 4, ((13, 17), (7, 9))),
    _case("channels_16", 1, 4, 16, 65, 4, ((9, 11), (5, 6))),
    _case("channels_64", 1, 2, 64, 31, 8, ((9, 11), (5, 6))),
    _case("channels_36", 1, 2, 36, 31, 2, ((9, 11),)),
    _case("levels_out_of_order", 1, 2, 8, 19, 4, ((6, 5), (3, 4), (2, 2)), order=(2, 0, 1), spare=3),
    _case("far_outside", 1, 2, 8, 50, 4, ((6, 5), (3, 4)), spread=3.0),
    _case("nan_and_huge_locations", 1, 2, 8, 50, 4, ((6, 5), (3, 4)), strange=True),
    _case("no_queries", 2, 2, 8, 0, 4, ((6, 5),)),
    _case("no_batch", 0, 2, 8, 5, 4, ((6, 5),)),
    _case("no_points", 1, 2, 8, 5, 0, ((6, 5),)),
    _case("empty_level", 1, 2, 8, 5, 2, ((6, 5), (0, 4))),
    # Rows of 32 channels, which have a kernel of their own: what is awkward has to reach that one too.
    _case("rows_32_out_of_order", 2, 3, 32, 19, 4, ((6, 5), (3, 4), (2, 2)), order=(2, 0, 1), spare=3),
    _case("rows_32_far_outside", 1, 2, 32, 50, 4, ((6, 5), (3, 4)), spread=3.0),
    _case("rows_32_nan_and_huge_locations", 2, 8, 32, 33, 4, ((6, 5), (3, 4)), strange=True),
    # 16 samples have a kernel of their own too, and so have 8 heads of 32 channels.
    _case("rows_32_sixteen_samples", 2, 8, 32, 41, 4, ((7, 9), (4, 5), (2, 3), (2, 2)), spread=0.5),
    _case("rows_32_one_head", 2, 1, 32, 41, 4, ((7, 9), (4, 5), (2, 3), (2, 2)), spread=0.5),
    _case("rows_32_narrow_levels", 2, 8, 32, 41, 4, ((7, 1), (1, 5), (1, 1), (3, 3)), spread=0.5),
    _case("rows_32_24_samples", 2, 3, 32, 41, 8, ((5, 6), (4, 4), (3, 3)), spread=0.5),
    _case("rows_32_130_samples", 1, 2, 32, 9, 65, ((5, 6), (3, 4)), spread=0.5),
    _case("rows_32_not_finite_unread", 2, 8, 32, 41, 8, ((6, 5), (4, 7)), unread=True),
    _case("no_batch_rows_32", 0, 2, 32, 5, 4, ((6, 5),)),
    _case("no_points_rows_32", 1, 2, 32, 5, 0, ((6, 5),)),
    _case("rows_32_empty_level", 1, 2, 32, 5, 3, ((6, 5), (0, 4))),
    _case("detector_encoder", 1, 8, 32, 22223, 4, DETECTOR, large=True),
    _case("detector_decoder", 4, 8, 32, 300, 4, DETECTOR, large=True),
)


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    batch, _, heads, channels = shapes["value"]
    return {"output": (batch, shapes["sampling_locations"][1], heads * channels)}


def _check(_fields: Fields, shapes: Any) -> list[str]:
    """Batch, heads, levels, points and queries must agree between the inputs."""
    named = {
        "batch": [("value", 0), ("sampling_locations", 0), ("attention_weights", 0)],
        "heads": [("value", 2), ("sampling_locations", 2), ("attention_weights", 2)],
        "queries": [("sampling_locations", 1), ("attention_weights", 1)],
        "levels": [
            ("spatial_shapes", 0),
            ("level_start_index", 0),
            ("sampling_locations", 3),
            ("attention_weights", 3),
        ],
        "points": [("sampling_locations", 4), ("attention_weights", 4)],
    }
    faults = []
    for what, places in named.items():
        sizes = {
            f"{p}[{axis}]": shapes[p][axis]
            for p, axis in places
            if p in shapes and shapes[p][axis] is not None
        }
        if len(set(sizes.values())) > 1:
            faults.append(
                f"{what} differ: " + ", ".join(f"{place} = {size}" for place, size in sizes.items())
            )
    return faults + size_faults(shapes, ("spatial_shapes", 1, 2), ("sampling_locations", 5, 2))


def _reference(_fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One sampling point at a time over whole arrays, corner by corner; float64."""
    value = inputs["value"].astype(np.float64)
    locations = inputs["sampling_locations"].astype(np.float64)
    weights = inputs["attention_weights"].astype(np.float64)
    batch, keys, heads, channels = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    output = np.zeros((batch, queries, heads, channels))
    n = np.arange(batch)[:, None, None]
    m = np.arange(heads)[None, None, :]
    for level in range(levels):
        height, width = (int(size) for size in inputs["spatial_shapes"][level])
        start = int(inputs["level_start_index"][level])
        for point in range(points):
            x = locations[:, :, :, level, point, 0] * width - 0.5
            y = locations[:, :, :, level, point, 1] * height - 0.5
            left, top = np.floor(x), np.floor(y)
            for column, row in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
                inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
                with np.errstate(invalid="ignore"):  # inf - inf where a location is infinite: outside
                    share = np.where(inside, (1 - np.abs(x - column)) * (1 - np.abs(y - row)), 0.0)
                index = start + np.where(inside, row * width + column, 0).astype(np.int64)
                inside &= (index >= 0) & (index < keys)
                index = np.where(inside, index, 0)
                share = np.where(inside, share * weights[:, :, :, level, point], 0.0)
                if keys:
                    output += share[..., None] * value[n, index, m]
    return {"output": output.reshape(batch, queries, heads * channels)}


def _torch_reference(_fields: Fields, inputs: Any) -> tuple[Any]:
    """grid_sample level by level, as the Deformable DETR authors' own PyTorch fallback formulates it.

    Levels are cut out of `value` by level_start_index, so they may lie in any order.
    """
    import torch
    import torch.nn.functional as functional

    value, locations, weights = inputs["value"], inputs["sampling_locations"], inputs["attention_weights"]
    batch, _, heads, channels = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    # grid_sample casts coordinates to int without a check; what is clamped here is outside of every level anyway.
    grids = 2 * torch.nan_to_num(locations, nan=-10.0).clamp(-10, 11) - 1
    # The largest tensor by far, so there is one: each level is sampled into it, and it is weighted in place.
    dtype = torch.promote_types(torch.promote_types(value.dtype, locations.dtype), weights.dtype)
    sampled = value.new_zeros(batch * heads, channels, queries, levels, points, dtype=dtype)
    for level, (height, width) in enumerate(inputs["spatial_shapes"].tolist()):
        start = int(inputs["level_start_index"][level])
        if height * width == 0:
            continue
        feature = value[:, start : start + height * width]
        feature = feature.permute(0, 2, 3, 1).reshape(batch * heads, channels, height, width)
        grid = grids[:, :, :, level].transpose(1, 2).reshape(batch * heads, queries, points, 2)
        sampled[..., level, :] = functional.grid_sample(
            feature, grid, mode="bilinear", padding_mode="zeros", align_corners=False
        )
    weights = weights.transpose(1, 2).reshape(batch * heads, 1, queries, levels * points)
    output = sampled.flatten(-2).mul_(weights).sum(-1)
    return (output.reshape(batch, heads * channels, queries).transpose(1, 2).contiguous(),)


MULTISCALE_DEFORMABLE_ATTENTION = OpDef(
    name="MultiscaleDeformableAttention",
    doc=(
        "Multi-scale deformable attention: bilinear samples of several feature levels, weighted and summed "
        "for each head. pixel = location * size - 0.5; samples outside a level are zero."
    ),
    inputs=(
        Port("value", "T", 4, "[N, S, M, D] features of all levels, row by row"),
        Port("spatial_shapes", "I", 2, "[L, 2] (height, width) of each level", meaning=Meaning.LEVEL_SIZES),
        Port("level_start_index", "I", 1, "[L] first row of each level in S", meaning=Meaning.LEVEL_STARTS),
        Port(
            "sampling_locations",
            "T",
            6,
            "[N, Lq, M, L, P, 2] (x, y), 0 to 1 across the level",
            positions=True,
            meaning=Meaning.SHARE,
        ),
        Port(
            "attention_weights", "T", 5, "[N, Lq, M, L, P], softmax already applied", meaning=Meaning.WEIGHTS
        ),
    ),
    outputs=(Port("output", "T", 3, "[N, Lq, M*D]"),),
    fields=(),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand,
    aliases=ALIASES,
    cases=CASES,
    tolerance={"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2},
    chain="grid-sample-attention",
    benchmarks=BENCHMARKS,
    work=work,
)
