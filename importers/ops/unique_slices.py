"""Finds the different slices of a tensor along an axis: Unique of ONNX.

Unique in other operators of ONNX: slices in lexicographic order by one stable sort for each of their elements.

TopK is stable, as ONNX defines it: of equal elements the one with the lower index comes first. So the order is that of a
radix sort, from the last element of the slices to the first, and equal slices lie side by side in the order of their
positions. A NaN is sorted by a flag of its own, behind all numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trtsmith.importers.builder import TO_END, Builder, Value
from trtsmith.importers.opdef import Alias, Arrays, Case, Expansion, Fields, OpDef, Port, Shapes
from trtsmith.importers.ops._shared import AXIS, axis_of, check_axis, flag


def expand(expansion: Expansion) -> tuple[Value, ...]:
    """Expands the operator: float32 and int64, which onnxruntime sorts, hold the other types' elements."""
    g = Builder(expansion.opset)
    whole = expansion.dtype in ("int32", "int64")
    axis = expansion.fields["axis"]
    behind = axis + 1 if axis != -1 else TO_END  # sizes behind the last axis do not begin at number 0
    sizes = g.Shape("x")
    slices = g.Gather(sizes, [axis], axis=0)
    outer, inner = (
        g.ReduceProd(g.Concat([1], part, axis=0), keepdims=1) for part in (sizes[:axis], sizes[behind:])
    )
    length = outer * inner
    apart = g.Reshape(g.Cast("x", to="int64" if whole else "float32"), [outer, slices, inner])
    rows = g.Reshape(g.Transpose(apart, perm=[1, 0, 2]), [slices, length])
    positions = g.arange(slices)

    def ascending(keys: Value, count: Value = slices) -> tuple[Value, ...]:
        return g.TopK(keys, count, largest=0, sorted=1, axis=0, outputs=2)

    def by_element(i: Value, go: Value, before: Value) -> tuple[Value, Value]:
        keys = g.Gather(g.Gather(rows, -(i + 1), axis=1), before, axis=0)
        if whole:
            _, order = ascending(keys)
        else:
            is_nan = g.IsNaN(keys)
            _, by_value = ascending(g.Where(is_nan, 0.0, keys))
            nan_last = g.Cast(g.Gather(g.Cast(is_nan, to="int32"), by_value, axis=0), to="int64")
            _, by_nan = ascending(nan_last)
            order = g.Gather(by_value, by_nan, axis=0)
        return go, g.Gather(before, order, axis=0)

    signature = "(int64 i, bool keep, int64[n] before) => (bool keep_on, int64[n] after)"
    order = g.Loop(g.Squeeze(length), True, positions, body=g.graph(signature, by_element))
    ordered = g.Gather(rows, order, axis=0)

    # where equal slices begin among the sorted ones; a column without a difference serves slices without elements
    earlier, later = ordered[:-1], ordered[1:]
    same = g.Equal(earlier, later)
    differ = ~(same if whole else same | g.IsNaN(earlier) & g.IsNaN(later))
    no_difference = g.Expand(0, g.Concat(g.Shape(later)[:1], [1], axis=0))
    differences = g.Concat(g.Cast(differ, to="int64"), no_difference, axis=1)
    any_difference = g.GatherElements(differences, g.ArgMax(differences, axis=1, keepdims=1), axis=1)
    begins = g.Concat(g.Slice([1], [0], slices), g.Reshape(any_difference, [-1]), axis=0)
    group_at = g.ScatterElements(positions, order, g.CumSum(begins, 0) - 1, axis=0)
    starts = g.Reshape(g.NonZero(begins), [-1])
    counts = g.Concat(starts, slices, axis=0)[1:] - starts
    first = g.Gather(order, starts, axis=0)
    groups = g.Shape(first)
    if not expansion.fields["sorted"]:  # in the order of first positions
        first, ranking = ascending(first, groups)
        counts = g.Gather(counts, ranking, axis=0)
        numbers = g.arange(groups)
        group_at = g.Gather(g.ScatterElements(numbers, ranking, numbers, axis=0), group_at, axis=0)
    count = g.Cast(g.Squeeze(groups), to="int32")
    return g.Gather("x", first, axis=axis), first, group_at, counts, count


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    output, axis = list(shapes["x"]), axis_of(fields, shapes)
    size, count = output[axis], shapes["count"]
    output[axis] = count[0]
    return {"output": tuple(output), "first": count, "inverse": (size,), "counts": count, "count": ()}


def _bounds(fields: Fields, shapes: Shapes) -> dict[str, Any]:
    return {"count": shapes["x"][axis_of(fields, shapes)]}


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """A table from slices to the positions that they have, filled in the order of the positions."""
    slices = np.moveaxis(inputs["x"], fields["axis"], 0)
    places: dict[tuple[Any, ...], list[int]] = {}
    for position, part in enumerate(slices):
        # A NaN as a pair that equals itself and comes last.
        key = tuple((True, 0) if value != value else (False, value) for value in part.reshape(-1).tolist())
        places.setdefault(key, []).append(position)
    groups = [places[key] for key in sorted(places)] if fields["sorted"] else list(places.values())
    first = np.array([group[0] for group in groups], np.int64)
    inverse = np.zeros(len(slices), np.int64)
    for number, group in enumerate(groups):
        inverse[group] = number
    return {
        "output": np.moveaxis(slices[first], 0, fields["axis"]),
        "first": first,
        "inverse": inverse,
        "counts": np.array([len(group) for group in groups], np.int64),
        "count": np.array(len(groups), np.int32),
    }


def _inputs(*shape: int, kinds: int = 4) -> Any:
    """Integers that every element type holds, `kinds` different ones around zero."""

    def make(rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {"x": rng.integers(0, kinds, shape) - float(kinds // 2)}

    return make


def _distinct(size: int) -> Any:
    return lambda rng: {"x": rng.permutation(size) - float(size // 2)}


def _ends(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Both zeros are equal; infinities and the smallest numbers have their places."""
    return {"x": np.array([0.0, 1e-45, np.inf, -0.0, -np.inf, -1e-45, 3.0, np.inf, -0.0, -3.0, 0.0])}


def _not_numbers(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """NaNs are equal, whatever their sign, and come last."""
    return {"x": np.array([np.nan, 2.0, -np.nan, np.inf, -1.0, np.nan, 2.0])}


def _along(axis: int, sorted_: int = 1) -> dict[str, int]:
    return {"axis": axis, "sorted": sorted_}


UNIQUE_SLICES = OpDef(
    name="UniqueSlices",
    selects="set",
    onnx="Unique",
    doc="The different slices of x along an axis, where they are, and how many of each. NaNs are equal and come last.",
    inputs=(Port("x", "E", None, "[...], one dimension at least"),),
    outputs=(
        Port("output", "E", None, "as x, with count slices along the axis"),
        Port("first", "N", 1, "[count]: the first position of each slice"),
        Port("inverse", "N", 1, "[size of the axis]: which of the different slices each one is"),
        Port("counts", "N", 1, "[count]: how often each occurs"),
        Port("count", "S", 0, "number of different slices", size=True),
    ),
    fields=(
        AXIS,
        flag("sorted", "1: smallest first; 0: in the order of first positions", default=1),
    ),
    shape=_shape,
    bounds=_bounds,
    check=check_axis,
    reference=_reference,
    expand=expand,
    aliases=(
        Alias(
            op_type="CustomUnique",
            domains=("autoware",),
            inputs=("x",),
            outputs=("output", "inverse", "counts", "number"),
            fields=lambda _: {"axis": 0, "sorted": 1},
            epilogue=lambda node: {"number": node.builder().Cast("count", to="int64")},
            source="Autoware, autoware_tensorrt_plugins, unique_plugin; AWML and autoware-ml, PTv3",
        ),
    ),
    cases=(
        Case("one_of_each", _along(0), _inputs(1)),
        Case("vector", _along(0), _inputs(37, kinds=9)),
        Case("first_come", _along(0, 0), _inputs(41, kinds=9)),
        Case("rows", _along(0), _inputs(30, 3, kinds=2)),
        Case("columns", _along(-1), _inputs(2, 33, kinds=3)),
        Case("middle_axis", _along(1), _inputs(2, 29, 2, kinds=2)),
        Case("middle_axis_first_come", _along(-2, 0), _inputs(2, 31, 2, kinds=2)),
        Case("all_equal", _along(0), _inputs(50, 2, kinds=1)),
        Case("all_different", _along(0), _distinct(99)),
        Case("all_different_first_come", _along(0, 0), _distinct(101)),
        Case("both_ends", _along(0), _ends),
        Case("not_numbers", _along(0), _not_numbers),
        Case("one_tile", _along(0), _inputs(1024, kinds=100)),
        Case("odd_tiles", _along(0), _inputs(5003, kinds=120)),
        Case("odd_tiles_first_come", _along(0, 0), _inputs(3077, kinds=120)),
        Case("many_rows", _along(0), _inputs(2500, 2, kinds=25)),
        Case("no_slices", _along(1), _inputs(3, 0)),
        Case("large", _along(0), _inputs(500_003, kinds=200), large=True),
        Case("large_rows", _along(0, 0), _inputs(150_007, 4, kinds=12), large=True),
    ),
    workspace=True,
)
