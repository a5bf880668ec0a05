"""Finds the last writer of each cell of a grid, in standard ONNX operators."""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Operand, Value

SCATTER_MAX = 18
"""First opset whose ScatterElements keeps the largest of what is written to one place."""


def last_owners(g: Builder, cell: Value, cells: Operand) -> Value:
    """Finds the last writer of each cell. cell: of each of n writers, int64 [n]; the number of cells where it has none.

    The last writer of each cell [cells], counted from 1, or 0. Before ScatterElements had a reduction, all but a cell's
    last writer are sent away first: which of several remains, ONNX does not say.
    """
    writers = g.Shape(cell)
    numbers = g.Range(1, g.Squeeze(g.Add(writers, [1])), 1)
    reduction = {"reduction": "max"} if g.opset >= SCATTER_MAX else {}
    if not reduction:
        column = g.vector(writers, 1)
        same = g.Equal(g.Reshape(cell, column), cell)
        overwrites = g.Cast(same & (g.Reshape(numbers, column) < numbers), to="int64")
        counts = g.Concat(g.Expand([0], column), overwrites, axis=1)
        overwritten = g.Cast(g.ReduceMax(counts, axes=[1], keepdims=0), to="bool")
        cell = g.Where(overwritten, cells, cell)
    no_owners = g.Expand([0], g.Add(cells, [1]))
    owners = g.ScatterElements(no_owners, cell, numbers, axis=0, **reduction)
    return g.Slice(owners, [0], cells)
