"""Expands the layout of pillars on their grid into standard ONNX operators."""

from __future__ import annotations

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion
from trtsmith.importers.ops.bev._cells_onnx import last_owners


def expand_pillar_scatter(expansion: Expansion) -> Value:
    """The last pillar of every cell, and its features gathered from there."""
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
