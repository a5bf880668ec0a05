"""Sorts the points of LiDAR frames into the cells of a grid (Zhou and Tuzel, VoxelNet, arXiv 1711.06396, 2.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Alias,
    AliasedNode,
    Arrays,
    Attr,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Refusal,
    Shapes,
    Work,
)
from trtsmith.importers.ops.bev._voxel_generation_cases import BENCHMARKS, CASES, HUGE
from trtsmith.importers.ops.bev._voxel_generation_onnx import expand_voxel_generation
from trtsmith.importers.ops.bev._voxel_generation_torch import torch_voxel_generation

MOST_CELLS = 2**31


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    frames, voxels = shapes["points"][0], fields["max_voxels"]
    return {
        "voxels": (frames, voxels, fields["max_points"], fields["features"]),
        "coords": (frames, voxels, 4),
        "point_counts": (frames, voxels),
        "num_voxels": (frames,),
    }


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def _grid(fields: Fields) -> np.ndarray:
    """Cells along x, y and z, in float32 as kernels have them; infinite or no number where there is no grid."""
    ends = np.array(fields["point_cloud_range"], np.float32)
    cells: np.ndarray = np.rint((ends[3:] - ends[:3]) / np.array(fields["voxel_size"], np.float32))
    if fields["pillars"]:
        cells[2] = 1
    return cells


def _check(fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    low, high = fields["point_cloud_range"][:3], fields["point_cloud_range"][3:]
    for axis, (start, end, size) in enumerate(zip(low, high, fields["voxel_size"], strict=True)):
        if not (start < end and math.isfinite(end - start)):
            faults.append(f"point_cloud_range goes from {start:g} to {end:g} along {'xyz'[axis]}")
        if not size > 0:
            faults.append(f"voxel_size[{axis}] = {size:g}, not above 0")
    if not faults:
        cells = _grid(fields)
        if not (cells >= 1).all() or not float(np.prod(cells)) < MOST_CELLS:
            faults.append(f"the grid has {'x'.join(f'{n:g}' for n in cells)} cells, not 1 to 2^31 - 1")
    points, counts = shapes.get("points", (None,) * 3), shapes.get("num_points", (None,))
    if None not in (points[0], counts[0]) and points[0] != counts[0]:
        faults.append(f"num_points[0] = {counts[0]}, but points[0] = {points[0]}")
    width = points[2]
    if width is not None and width < 3:
        faults.append(f"points[2] = {width}, but a point has x, y and z")
    elif width is not None and fields["features"] > width + 6:
        faults.append(
            f"features = {fields['features']}, but a point of {width} numbers has {width + 6} with the offsets"
        )
    return faults


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One point after the other. Cells are decided in float32."""
    points = inputs["points"]
    frames, most, _ = points.shape
    voxels = np.zeros((frames, fields["max_voxels"], fields["max_points"], fields["features"]))
    coords = np.zeros((frames, fields["max_voxels"], 4), np.int32)
    counts = np.zeros((frames, fields["max_voxels"]), np.int32)
    number = np.zeros(frames, np.int32)
    low, high = np.split(np.array(fields["point_cloud_range"], np.float32), 2)
    size, grid = np.array(fields["voxel_size"], np.float32), _grid(fields)
    for frame in range(frames):
        given = points[frame, : max(0, min(most, int(inputs["num_points"][frame])))]
        positions = given[:, :3].astype(np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            places = np.floor((positions - low) / size)
            if fields["pillars"]:
                places[:, 2] = 0
            inside = ((positions >= low) & (positions < high) & (places < grid)).all(axis=1)
        cells: dict[tuple[int, ...], list[int]] = {}
        for point in np.flatnonzero(inside):
            cells.setdefault(tuple(int(place) for place in places[point]), []).append(int(point))
        for voxel, (cell, members) in enumerate(list(cells.items())[: fields["max_voxels"]]):
            kept = given[members[: fields["max_points"]]].astype(np.float64)
            middle = low.astype(np.float64) + (np.array(cell) + 0.5) * size
            offsets = [kept[:, :3] - kept[:, :3].mean(axis=0), kept[:, :3] - middle]
            numbers = np.concatenate([kept, *offsets], axis=1)
            voxels[frame, voxel, : len(kept)] = numbers[:, : fields["features"]]
            coords[frame, voxel, 1:] = cell[::-1]
            counts[frame, voxel] = len(kept)
        number[frame] = min(len(cells), fields["max_voxels"])
    return {"voxels": voxels, "coords": coords, "point_counts": counts, "num_voxels": number}


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """Little is computed; an operation is counted for each element that is read or written."""
    return Work(flops=math.prod(shapes["points"]) + math.prod(shapes["voxels"]))


def _nvidia_guard(node: AliasedNode) -> Refusal | None:
    ends, size = node.attrs["point_cloud_range"], node.attrs["voxel_size"]
    if all(low < high for low, high in zip(ends[:3], ends[3:], strict=True)) and min(size) > 0:
        return None
    return Refusal(
        f"point_cloud_range = {list(ends)} with voxel_size = {list(size)}",
        "point_cloud_range: x, y and z at which it begins, then those at which it ends, further on; voxel_size above 0",
        "correct the two where the model is exported",
    )


def _nvidia_fields(node: AliasedNode) -> Fields:
    a = node.attrs
    return {
        "max_points": a["max_num_points_per_voxel"],
        "max_voxels": a["max_voxels"],
        "features": a["voxel_feature_num"],
        "point_cloud_range": a["point_cloud_range"],
        "voxel_size": a["voxel_size"],
        "pillars": 1,
    }


VOXEL_GENERATION = OpDef(
    name="VoxelGeneration",
    doc=(
        "The points of LiDAR frames sorted into the cells of a grid, as mmcv's deterministic hard voxelization does it: "
        "voxels in the order of their first points, points of a voxel in their own order, and what is too much of either "
        "left out. A point counts if it is among the frame's first num_points and in the range, the end excluded: one "
        "that is no number counts as nothing. What holds no point is zero."
    ),
    inputs=(
        Port("points", "T", 3, "[N, P, F] of which the first three are x, y and z", positions=True),
        Port("num_points", "S", 1, "[N] how many of a frame's points count"),
    ),
    outputs=(
        Port(
            "voxels",
            "T",
            4,
            "[N, max_voxels, max_points, features] of each point its own F numbers, x, y and z from the mean of the "
            "voxel's points, and x, y and z from the middle of its cell; the first `features` of these",
        ),
        Port("coords", "S", 3, "[N, max_voxels, 4] 0, z, y and x of each voxel's cell"),
        Port("point_counts", "S", 2, "[N, max_voxels] how many points a voxel holds"),
        Port("num_voxels", "S", 1, "[N] how many voxels a frame has"),
    ),
    fields=(
        Field("max_points", Kind.INT, "points of a voxel, at most", minimum=1),
        Field("max_voxels", Kind.INT, "voxels of a frame, at most", minimum=1),
        Field("features", Kind.INT, "numbers of a point in a voxel; F: its own alone", minimum=1),
        Field("point_cloud_range", Kind.FLOATS, "where x, y and z begin, and where they end", length=6),
        Field("voxel_size", Kind.FLOATS, "of a cell, along x, y and z", length=3),
        Field("pillars", Kind.INT, "1: cells are not divided along z", default=0, allowed=(0, 1)),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=torch_voxel_generation,
    expand=expand_voxel_generation,
    aliases=(
        Alias(
            op_type="VoxelGeneratorPlugin",
            domains=("trt", "TRT"),
            inputs=("points", "num_points"),
            outputs=("voxels", "coords", "num_voxels"),
            attributes=(
                Attr("max_num_points_per_voxel", Kind.INT),
                Attr("max_voxels", Kind.INT),
                Attr("point_cloud_range", Kind.FLOATS, lengths=(6,)),
                Attr("voxel_feature_num", Kind.INT),
                Attr("voxel_size", Kind.FLOATS, lengths=(3,)),
            ),
            guard=_nvidia_guard,
            fields=_nvidia_fields,
            source=(
                "NVIDIA TensorRT OSS, voxelGeneratorPlugin, whose order of pillars and of their points differs from run to "
                "run; with points of five numbers its kernel reads coordinates and z of other places"
            ),
        ),
    ),
    tolerance={"float32": 2e-6, "float16": 2e-4, "bfloat16": 2e-3},
    cases=CASES,
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
    float32_only="16 bits place a point 70 m away within 3 to 25 cm only, and cells are that small",
)
