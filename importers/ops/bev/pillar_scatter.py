"""Lays the features of pillars out on the grid that they come from (Lang et al., PointPillars, arXiv 1812.05784, 2.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trtsmith.importers.opdef import (
    Alias,
    Arrays,
    Attr,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops._limits import faults_of_int32
from trtsmith.importers.ops.bev._pillar_scatter_cases import BENCHMARKS, CASES, HUGE
from trtsmith.importers.ops.bev._pillar_scatter_onnx import expand_pillar_scatter


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    frames, _, channels = shapes["features"]
    return {"output": (frames, channels, fields["output_height"], fields["output_width"])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    faults = []
    features = shapes.get("features", (None,) * 3)
    for name, axes in (("coords", (0, 1)), ("counts", (0,))):
        for axis in axes if name in shapes else ():
            found, wanted = shapes[name][axis], features[axis]
            if found is not None and wanted is not None and found != wanted:
                faults.append(f"{name}[{axis}] = {found}, but features[{axis}] = {wanted}")
    if "coords" in shapes and shapes["coords"][2] not in (None, 4):
        faults.append(f"coords[2] = {shapes['coords'][2]}, not 4")
    return faults + faults_of_int32(shapes, ("features", 1))


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One pillar after the other."""
    features, height, width = inputs["features"], fields["output_height"], fields["output_width"]
    frames, pillars, channels = features.shape
    output = np.zeros((frames, channels, height, width), features.dtype)
    for frame in range(frames):
        for pillar in range(min(pillars, int(inputs["counts"][frame]))):
            row, column = (int(place) for place in inputs["coords"][frame, pillar, 2:])
            if 0 <= row < height and 0 <= column < width:
                output[frame, :, row, column] = features[frame, pillar]
    return {"output": output}


def _torch_reference(fields: Fields, inputs: Mapping[str, Any]) -> tuple[Any]:
    """The last pillar of every cell by scatter_reduce."""
    import torch

    features, height, width = inputs["features"], fields["output_height"], fields["output_width"]
    frames, pillars, channels = features.shape
    row, column = inputs["coords"][..., 2].long(), inputs["coords"][..., 3].long()
    number = torch.arange(pillars, device=features.device).expand(frames, pillars)
    counts = number < inputs["counts"][:, None]
    counts = counts & (row >= 0) & (row < height) & (column >= 0) & (column < width)
    frame = torch.arange(frames, device=features.device)[:, None]
    cell = ((frame * height + row) * width + column)[counts]
    place = (frame * pillars + number)[counts]
    last = torch.full((frames * height * width,), -1, device=features.device)
    last.scatter_reduce_(0, cell, place, "amax")
    table = torch.cat([features.flatten(0, 1), features.new_zeros(1, channels)])
    output = table[last].reshape(frames, height, width, channels)
    return (output.permute(0, 3, 1, 2).contiguous(),)


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """Nothing is computed; an operation is counted for each element that is written."""
    return Work(flops=math.prod(shapes["output"]))


PILLAR_SCATTER = OpDef(
    name="PillarScatter",
    doc=(
        "The features of pillars laid out on the grid that they come from. A pillar's frame is its place in the batch; the "
        "first two coordinates are not read: NVIDIA's VoxelGeneratorPlugin writes zeros there. Pillars behind the number of "
        "a frame's pillars are not read either, one outside of the grid counts as nothing, and of several pillars of a "
        "cell the last counts. Other cells are zero."
    ),
    inputs=(
        Port("features", "T", 3, "[N, P, C]"),
        Port("coords", "S", 3, "[N, P, 4] (frame, z, y, x) of each pillar's cell"),
        Port("counts", "S", 1, "[N] how many of a frame's pillars count"),
    ),
    outputs=(Port("output", "T", 4, "[N, C, output_height, output_width]"),),
    fields=(
        Field("output_height", Kind.INT, "rows of the grid", minimum=1),
        Field("output_width", Kind.INT, "columns of the grid", minimum=1),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    expand=expand_pillar_scatter,
    aliases=(
        Alias(
            op_type="PillarScatterPlugin",
            domains=("trt", "TRT"),
            inputs=("features", "coords", "counts"),
            attributes=(Attr("dense_shape", Kind.INTS, lengths=(2,)),),
            fields=lambda node: dict(
                zip(("output_height", "output_width"), node.attrs["dense_shape"], strict=True)
            ),
            source="NVIDIA TensorRT OSS, pillarScatterPlugin, whose kernel has 64 channels alone",
        ),
    ),
    cases=CASES,
    huge=HUGE,
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)
