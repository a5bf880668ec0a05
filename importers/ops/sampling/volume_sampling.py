"""Samples volumes at points: GridSample of ONNX in three dimensions (Jaderberg et al., arXiv 1506.02025, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import Arrays, Field, Fields, Kind, OpDef, Port, Shapes, Work
from trtsmith.importers.ops._limits import faults_of_int32
from trtsmith.importers.ops.sampling._volume_sampling_cases import (
    BENCHMARKS,
    BORDER,
    CASES,
    NEAREST,
    REFLECTION,
    ZEROS,
    huge,
)
from trtsmith.importers.ops.sampling._volume_sampling_onnx import expand_volume_sampling


def _shape(_fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    return {"output": (*shapes["x"][:2], *shapes["grid"][1:4])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    x, grid = shapes.get("x", (None,) * 5), shapes.get("grid", (None,) * 5)
    if None not in (x[0], grid[0]) and x[0] != grid[0]:
        faults.append(f"grid[0] = {grid[0]}, but x[0] = {x[0]}")
    if grid[4] not in (None, 3):
        faults.append(f"grid[4] = {grid[4]}, not 3")
    faults += [f"x[{axis}] = 0: there is nothing to sample" for axis in (2, 3, 4) if x[axis] == 0]
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
        Field("interpolation", Kind.INT, "0: linear, 1: the nearest voxel", default=0, allowed=(0, 1)),
        Field("padding", Kind.INT, "0: zeros, 1: the border, 2: reflection", default=0, allowed=(0, 1, 2)),
        Field(
            "align_corners",
            Kind.INT,
            "1: -1 and 1 are the middles of the outer voxels; 0: the ends of the volume",
            default=0,
            allowed=(0, 1),
        ),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand_volume_sampling,
    cases=CASES,
    tolerance={"float32": 1.1e-5, "float16": 4.4e-4, "bfloat16": 4e-3},
    huge=huge(),
    benchmarks=BENCHMARKS,
    baselines={"grid_sample": _grid_sample},
    work=_work,
    workspace=True,
)
