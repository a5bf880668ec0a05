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
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops.bev._cells_onnx import last_owners
from trtsmith.importers.ops.bev._pillar_scatter_cases import BENCHMARKS, CASES, HUGE


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
    return faults


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


def _expand(expansion: Expansion) -> str:
    height, width = expansion.fields["output_height"], expansion.fields["output_width"]
    return f"""
i0 = Constant <value = int64[1] {{0}}> ()
i1 = Constant <value = int64[1] {{1}}> ()
i2 = Constant <value = int64[1] {{2}}> ()
i3 = Constant <value = int64[1] {{3}}> ()
zero = Constant <value = int64 {{0}}> ()
one = Constant <value = int64 {{1}}> ()
nought = Constant <value = float[1] {{0}}> ()
height = Constant <value = int64[1] {{{height}}}> ()
width = Constant <value = int64[1] {{{width}}}> ()
frame_cells = Constant <value = int64[1] {{{height * width}}}> ()
sizes = Shape (features)
frames = Slice (sizes, i0, i1)
pillars = Slice (sizes, i1, i2)
channels = Slice (sizes, i2, i3)
places = Slice (sizes, i0, i2)
positions = Cast <to = 7> (coords)
row_number = Constant <value = int64 {{2}}> ()
column_number = Constant <value = int64 {{3}}> ()
row = Gather <axis = 2> (positions, row_number)
column = Gather <axis = 2> (positions, column_number)
frames_end = Squeeze (frames)
pillars_end = Squeeze (pillars)
frame_numbers = Range (zero, frames_end, one)
pillar_numbers = Range (zero, pillars_end, one)
frame_column = Concat <axis = 0> (frames, i1)
frame = Reshape (frame_numbers, frame_column)
counts_wide = Cast <to = 7> (counts)
counts_column = Reshape (counts_wide, frame_column)
counted = Less (pillar_numbers, counts_column)
row_negative = Less (row, i0)
row_before_end = Less (row, height)
column_negative = Less (column, i0)
column_before_end = Less (column, width)
some_negative = Or (row_negative, column_negative)
none_negative = Not (some_negative)
before_end = And (row_before_end, column_before_end)
inside = And (none_negative, before_end)
laid_out = And (inside, counted)
frame_rows = Mul (frame, height)
rows = Add (frame_rows, row)
row_cells = Mul (rows, width)
cell_given = Add (row_cells, column)
cells = Mul (frames, frame_cells)
cell_of_each = Where (laid_out, cell_given, cells)
writers = Mul (frames, pillars)
cell = Reshape (cell_of_each, writers)
{last_owners(expansion.opset)}
table_shape = Concat <axis = 0> (writers, channels)
table_rows = Reshape (features, table_shape)
zero_shape = Concat <axis = 0> (i1, channels)
zero_row = Expand (nought, zero_shape)
table = Concat <axis = 0> (zero_row, table_rows)
gathered = Gather <axis = 0> (table, owner)
grid_shape = Concat <axis = 0> (frames, height, width, channels)
grid = Reshape (gathered, grid_shape)
output = Transpose <perm = [0, 3, 1, 2]> (grid)
"""


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
    expand=_expand,
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
