"""Selects the slices of a tensor along an axis at which a condition holds: Compress of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.dims import smaller
from trtsmith.importers.opdef import Arrays, Case, Expansion, Fields, OpDef, Port, Shapes
from trtsmith.importers.ops._shared import AXIS, axis_of, check_axis


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    output = list(shapes["x"])
    output[axis_of(fields, shapes)] = shapes["count"][0]
    return {"output": tuple(output), "count": ()}


def _bounds(fields: Fields, shapes: Shapes) -> dict[str, Any]:
    return {"count": smaller(shapes["x"][axis_of(fields, shapes)], shapes["condition"][0])}


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """One slice after the other, as long as there is a condition for it."""
    slices = np.moveaxis(inputs["x"], fields["axis"], 0)
    kept = [part for part, holds in zip(slices, inputs["condition"], strict=False) if holds]
    stacked = np.stack(kept) if kept else slices[:0]
    return {"output": np.moveaxis(stacked, 0, fields["axis"]), "count": np.array(len(kept), np.int32)}


def _expand(expansion: Expansion) -> tuple[Value, Value]:
    """Writes Compress in other operators: the positions at which the condition holds, and the slices gathered from there."""
    g = Builder(expansion.opset)
    axis = expansion.fields["axis"]
    slices = g.Gather(g.Shape("x"), [axis], axis=0)
    positions = g.Reshape(g.NonZero(g.Slice("condition", [0], slices)), [-1])
    return g.Gather("x", positions, axis=axis), g.Cast(g.Size(positions), to="int32")


def _inputs(*shape: int, length: int | None = None, axis: int = 0, share: float = 0.5) -> Any:
    """Integers that every element type holds, and a condition that holds for `share` of the slices."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        x = rng.integers(-100, 100, shape).astype(np.float64)
        return {"x": x, "condition": rng.random(shape[axis] if length is None else length) < share}

    return make


def _strange(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Values that are moved as they are, bit for bit."""
    x = np.array([[np.nan, -0.0, np.inf], [1e-45, 0.0, 1.0], [-np.inf, 7.0, np.nan]])
    return {"x": x, "condition": np.array([True, False, True])}


def _at(axis: int) -> dict[str, int]:
    return {"axis": axis}


SELECTED_SLICES = OpDef(
    name="SelectedSlices",
    selects="rows",
    onnx="Compress",
    doc="The slices of x along an axis at which the condition holds, and their number.",
    inputs=(
        Port("x", "E", None, "[...], one dimension at least"),
        Port("condition", "B", 1, "[n]; slices behind the last are not taken"),
    ),
    outputs=(
        Port("output", "E", None, "as x, with count slices along the axis"),
        Port("count", "S", 0, "number of slices for which the condition holds", size=True),
    ),
    fields=(AXIS,),
    shape=_shape,
    bounds=_bounds,
    check=check_axis,
    reference=_reference,
    expand=_expand,
    cases=(
        Case("one_of_each", _at(0), _inputs(1, share=1.0)),
        Case("vector", _at(0), _inputs(37)),
        Case("rows", _at(0), _inputs(9, 5)),
        Case("columns", _at(1), _inputs(3, 11, axis=1)),
        Case("middle_axis", _at(-2), _inputs(2, 7, 3, axis=1)),
        Case("short_condition", _at(1), _inputs(3, 11, length=4)),
        Case("long_condition", _at(-1), _inputs(3, 5, length=9, share=0.8)),
        Case("nothing_selected", _at(0), _inputs(40, 3, share=0.0)),
        Case("all_selected", _at(1), _inputs(4, 13, 2, axis=1, share=1.0)),
        Case("wide_slices", _at(0), _inputs(33, 4, 16)),
        Case("strange_numbers", _at(0), _strange),
        Case("more_than_a_tile", _at(1), _inputs(2, 4999, axis=1, share=0.3)),
        Case("no_batch", _at(1), _inputs(0, 4, axis=1)),
        Case("no_slices", _at(1), _inputs(3, 0, 2, axis=1)),
        Case("no_condition", _at(0), _inputs(6, 2, length=0)),
        Case("large", _at(1), _inputs(16, 8400, 85, axis=1, share=0.1), large=True),
        Case("large_vector", _at(0), _inputs(300_007), large=True),
    ),
    workspace=True,
)
