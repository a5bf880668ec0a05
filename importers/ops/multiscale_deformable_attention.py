"""Multi-scale deformable attention (Zhu et al., Deformable DETR, arXiv 2010.04159, equation 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.generation import Meaning
from trtsmith.importers.opdef import (
    Arrays,
    Fields,
    OpDef,
    Port,
    Shapes,
)
from trtsmith.importers.ops._multiscale_deformable_attention_aliases import ALIASES
from trtsmith.importers.ops._multiscale_deformable_attention_cases import CASES
from trtsmith.importers.ops._multiscale_deformable_attention_huge import HUGE
from trtsmith.importers.ops._multiscale_deformable_attention_onnx import expand
from trtsmith.importers.ops._multiscale_deformable_attention_sizes import BENCHMARKS, work


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
    for port, axis, size in (("spatial_shapes", 1, 2), ("sampling_locations", 5, 2)):
        if port in shapes and shapes[port][axis] not in (None, size):
            faults.append(f"{port}[{axis}] = {shapes[port][axis]}, not {size}")
    return faults


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
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=work,
)
