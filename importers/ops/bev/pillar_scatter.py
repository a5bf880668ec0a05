"""Places the features of pillars on the grid that they come from (Lang et al., PointPillars, arXiv 1812.05784, 2.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import (
    Alias,
    Arrays,
    Attr,
    Case,
    Expansion,
    Field,
    Fields,
    Kind,
    OpDef,
    Port,
    Shapes,
    Work,
)
from trtsmith.importers.ops._shared import Made, faults_of_int32, size_faults, then
from trtsmith.importers.ops.bev._cells_onnx import last_owners


def _inputs(rng: np.random.Generator, features: tuple[int, int, int], grid: tuple[int, int]) -> Made:
    """Pillars at different cells of a frame, as far as there are any, and rows behind the last that hold anything."""
    frames, pillars, _ = features
    cells = grid[0] * grid[1]
    cell = np.zeros((frames, pillars), np.int64)
    for frame in range(frames):
        cell[frame] = rng.permutation(max(cells, pillars))[:pillars] % cells
    coords = np.zeros((frames, pillars, 4), np.int64)
    coords[..., 2:] = np.stack(np.divmod(cell, grid[1]), axis=-1)
    counts = rng.integers(pillars // 2, pillars + 1, frames)
    counts[-1:] = pillars
    return {"features": rng.normal(size=features), "coords": coords, "counts": counts}


def _same_cells(rng: np.random.Generator, made: Made) -> None:
    """Several pillars in one cell, of which those that do not count come last."""
    made["coords"][..., 2] = rng.integers(0, 2, made["coords"].shape[:2])
    made["coords"][..., 3] = rng.integers(0, 3, made["coords"].shape[:2])


def _strange(rng: np.random.Generator, made: Made) -> None:
    """Positions outside, invalid numbers of pillars, and first coordinates, which are not read."""
    coords = made["coords"]
    chosen = rng.random(coords.shape[:2]) < 0.3
    far = np.array([-1, -(2**31), 2**31 - 1, 1000])
    coords[chosen, rng.integers(2, 4, chosen.sum())] = rng.choice(far, chosen.sum())
    coords[..., :2] = rng.choice(far, (*coords.shape[:2], 2))
    made["counts"][:4] = [-1, 2**31 - 1, 0, -(2**31)][: len(made["counts"])]


def _case(
    name: str,
    features: tuple[int, int, int],
    grid: tuple[int, int],
    change: Callable[[np.random.Generator, Made], None] | None = None,
    **marks: bool,
) -> Case:
    inputs = then(lambda rng: _inputs(rng, features, grid), change)
    return Case(name, {"output_height": grid[0], "output_width": grid[1]}, inputs, **marks)


BENCHMARKS = (
    # PointPillars on KITTI and on nuScenes, and four frames of the former.
    _case("kitti_496x432", (1, 12000, 64), (496, 432), large=True),
    _case("nuscenes_512x512", (1, 30000, 64), (512, 512), large=True),
    _case("kitti_batch_4", (4, 12000, 64), (496, 432), large=True),
)

CASES = (
    _case("one_of_each", (1, 1, 1), (1, 1)),
    _case("two_frames", (2, 9, 5), (6, 8)),
    _case("odd_cells", (3, 12, 7), (5, 7)),
    _case("more_channels_than_a_block", (1, 10, 37), (4, 9)),
    _case("as_networks_have_it", (2, 40, 64), (12, 16)),
    _case("every_cell", (1, 20, 3), (4, 5)),
    _case("more_cells_than_a_block", (1, 50, 4), (33, 36)),
    _case("same_cells", (2, 30, 6), (4, 6), _same_cells),
    _case("strange_positions_and_numbers", (4, 20, 6), (5, 6), _strange),
    _case("no_pillars", (2, 0, 4), (3, 5)),
    _case("no_channels", (2, 4, 0), (3, 5)),
    _case("no_frames", (0, 4, 3), (3, 5)),
    _case("tiles", (2, 900, 35), (70, 64), large=True, tiles=True),
    *BENCHMARKS,
)


def expand_pillar_scatter(expansion: Expansion) -> Value:
    """Finds the last pillar of every cell, and gathers its features."""
    g = Builder(expansion.opset)
    height, width = [expansion.fields["output_height"]], [expansion.fields["output_width"]]
    sizes = g.Shape("features")
    frames, pillars, channels = (sizes[i : i + 1] for i in range(3))

    positions = g.Cast("coords", to="int64")
    row, column = g.Gather(positions, 2, axis=2), g.Gather(positions, 3, axis=2)
    frame_column = g.vector(frames, 1)
    frame = g.Reshape(g.arange(frames), frame_column)
    counted = g.arange(pillars) < g.Reshape(g.Cast("counts", to="int64"), frame_column)
    inside = ~((row < [0]) | (column < [0])) & ((row < height) & (column < width))
    cells = frames * [height[0] * width[0]]
    cell = g.Where(inside & counted, (frame * height + row) * width + column, cells)
    writers = frames * pillars
    owner = last_owners(g, g.Reshape(cell, writers), cells)

    no_features = g.Expand(np.zeros(1, np.float32), [1, channels])
    table = g.Concat(no_features, g.Reshape("features", [writers, channels]), axis=0)
    grid = g.Reshape(g.Gather(table, owner, axis=0), [frames, *height, *width, channels])
    return g.Transpose(grid, perm=[0, 3, 1, 2])


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    frames, _, channels = shapes["features"]
    return {"output": (frames, channels, fields["output_height"], fields["output_width"])}


def _check(_fields: Fields, shapes: Mapping[str, tuple[int | None, ...]]) -> list[str]:
    places = (("coords", 0), ("coords", 1), ("counts", 0))
    agreeing = ((name, axis, "features", axis) for name, axis in places)
    return size_faults(shapes, *agreeing, ("coords", 2, 4)) + faults_of_int32(shapes, ("features", 1))


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
    benchmarks=BENCHMARKS,
    work=_work,
    workspace=True,
)
