"""Finds the largest or smallest elements along an axis, in order: TopK of ONNX, for any number of them.

TopK in other operators of ONNX: a Loop takes the best element that is left of every row, and notes its rank.

A NaN has no place among numbers: it is taken before them where the largest are wanted, and after them otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from trtsmith.importers.builder import TO_END, Builder, Value
from trtsmith.importers.opdef import Arrays, Case, Expansion, Field, Fields, Kind, OpDef, Port, Shapes, Work
from trtsmith.importers.ops._shared import AXIS, axis_of, check_axis, flag


def expand(expansion: Expansion) -> tuple[Value, Value]:
    """Expands the operator: float32 and int64, which onnxruntime compares, hold the other types' elements."""
    g = Builder(expansion.opset)
    whole = expansion.dtype in ("int32", "int64")
    axis, largest, count = (expansion.fields[name] for name in ("axis", "largest", "k"))
    behind = axis + 1 if axis != -1 else TO_END
    sizes = g.Shape("x")
    before, after = sizes[:axis], sizes[behind:]
    outer, inner = (g.ReduceProd(g.Concat([1], part, axis=0), keepdims=1) for part in (before, after))
    rows_shape = g.Concat(outer, g.Gather(sizes, [axis], axis=0), inner, axis=0)
    rows = g.Reshape(g.Cast("x", to="int64" if whole else "float32"), rows_shape)
    zeros, ones = (
        g.ConstantOfShape(rows_shape, value=onnx.numpy_helper.from_array(np.array([value])))
        for value in (0, 1)
    )
    places = g.CumSum(ones, 1, exclusive=1)  # along the axis
    is_nan = g.Equal(zeros, ones) if whole else g.IsNaN(rows)
    limits = np.iinfo(np.int64)
    lowest, highest = (limits.min, limits.max) if whole else (-np.inf, np.inf)
    extreme = lowest if largest else highest

    def take_best(i: Value, go: Value, open_places: Value, rank: Value) -> tuple[Value, ...]:
        open_number, open_nan = open_places & ~is_nan, open_places & is_nan
        numbers = g.Where(open_number, rows, extreme)
        top = g.write("ArgMax" if largest else "ArgMin", numbers, axis=1, keepdims=1)
        best_numbers = g.Equal(rows, g.GatherElements(numbers, top, axis=1)) & open_number
        best_number, best_nan = (
            g.ArgMax(g.Cast(flags, to="int32"), axis=1, keepdims=1) for flags in (best_numbers, open_nan)
        )
        if largest:
            best = g.Where(g.GatherElements(open_nan, best_nan, axis=1), best_nan, best_number)
        else:
            best = g.Where(g.GatherElements(open_number, best_number, axis=1), best_number, best_nan)
        itself = g.Equal(places, best)
        return go, open_places & ~itself, g.Where(itself, i, rank)

    signature = """(int64 i, bool keep, bool[o, n, m] open, int64[o, n, m] rank)
        => (bool go_on, bool[o, n, m] open_next, int64[o, n, m] rank_next)"""
    behind_last = ones * [count]
    body = g.graph(signature, take_best)
    _, ranks = g.Loop(count, True, g.Equal(ones, ones), behind_last, body=body, outputs=2)
    table_shape = g.Concat(outer, [count + 1], inner, axis=0)
    table = g.ConstantOfShape(table_shape, value=onnx.numpy_helper.from_array(np.array([0])))
    chosen = g.Slice(g.ScatterElements(table, ranks, places, axis=1), [0], [count], [1])
    results_shape = g.Concat(before, [count], after, axis=0)
    values = g.Reshape(g.GatherElements(rows, chosen, axis=1), results_shape)
    return g.Cast(values, to=expansion.dtype), g.Reshape(chosen, results_shape)


def _shape(fields: Fields, shapes: Shapes) -> dict[str, tuple[Any, ...]]:
    result = list(shapes["x"])
    result[axis_of(fields, shapes)] = fields["k"]
    return {"values": tuple(result), "indices": tuple(result)}


def _check(fields: Fields, shapes: Any) -> list[str]:
    faults = check_axis(fields, shapes)
    if faults or "x" not in shapes:
        return faults
    size = shapes["x"][axis_of(fields, shapes)]
    return (
        [f"k = {fields['k']}, but the axis has {size} elements"]
        if size is not None and size < fields["k"]
        else []
    )


def _reference(fields: Fields, inputs: Arrays) -> dict[str, np.ndarray]:
    """A stable sort of every row, from the end for the largest, so that equal elements keep their order."""
    x, axis, count = inputs["x"], fields["axis"], fields["k"]
    comparable = x if x.dtype.kind == "i" else x.astype(np.float64)
    if fields["largest"]:
        order = (
            x.shape[axis] - 1 - np.flip(np.argsort(np.flip(comparable, axis), axis=axis, kind="stable"), axis)
        )
    else:
        order = np.argsort(comparable, axis=axis, kind="stable")
    indices = np.take(order, np.arange(count), axis=axis)
    return {"values": np.take_along_axis(x, indices, axis=axis), "indices": indices.astype(np.int64)}


def _torch_reference(fields: Fields, inputs: Any) -> tuple[Any, ...]:
    """PyTorch, too, has NaNs above everything."""
    x = inputs["x"]
    values, indices = x.sort(dim=fields["axis"], descending=bool(fields["largest"]), stable=True)
    first = (fields["axis"], 0, fields["k"])
    return values.narrow(*first).contiguous(), indices.narrow(*first).contiguous()


def _torch_topk(fields: Fields, inputs: Any) -> tuple[Any, ...]:
    """In any order between equal elements."""
    found = inputs["x"].topk(fields["k"], fields["axis"], bool(fields["largest"]))
    return found.values, found.indices


def _with(k: int, axis: int = -1, largest: int = 1) -> dict[str, int]:
    return {"k": k, "axis": axis, "largest": largest}


def _inputs(*shape: int, kinds: int = 4001) -> Any:
    """Integers around zero that float16 holds, `kinds` different ones."""
    return lambda rng: {"x": rng.integers(0, min(kinds, 4001), shape) - float(min(kinds, 4001) // 2)}


def _numbers(*shape: int) -> Any:
    return lambda rng: {"x": rng.normal(size=shape) * 100}


def _strange(_rng: np.random.Generator) -> dict[str, np.ndarray]:
    """NaNs, infinities, both zeros, the smallest numbers."""
    row = [0.0, np.nan, -0.0, np.inf, 1e-45, -np.inf, -np.nan, 3.0, -1e-45, np.inf, -3.0, 0.0, np.nan]
    return {"x": np.array([row, row[::-1]])}


def _work(_fields: Fields, shapes: Shapes) -> Work:
    """Every element is compared once, at least."""
    return Work(flops=math.prod(shapes["x"]))


TOP_ELEMENTS = OpDef(
    name="TopElements",
    selects="ranking",
    onnx="TopK",
    doc=(
        "The largest or smallest elements along an axis, in order, and where they are. Of equal elements the one with the "
        "lower index comes first. NaNs are equal, and above everything."
    ),
    inputs=(Port("x", "E", None, "[...], one dimension at least"),),
    outputs=(
        Port("values", "E", None, "as x, with `k` elements along the axis"),
        Port("indices", "N", None, "their places along the axis, of the same shape"),
    ),
    fields=(
        Field("k", Kind.INT, "how many, at most the size of the axis", minimum=0),
        AXIS,
        flag("largest", "1: the largest, 0: the smallest", default=1),
    ),
    shape=_shape,
    check=_check,
    reference=_reference,
    torch_reference=_torch_reference,
    baselines={"topk": _torch_topk},
    expand=expand,
    cases=(
        Case("one_of_each", _with(1), _inputs(1)),
        Case("vector", _with(20), _inputs(37)),
        Case("smallest", _with(9, largest=0), _inputs(3, 41)),
        Case("all", _with(33), _inputs(2, 33)),
        Case("middle_axis", _with(11, axis=1), _inputs(3, 17, 5)),
        Case("first_axis_smallest", _with(7, axis=-3, largest=0), _inputs(19, 2, 3)),
        Case("equal", _with(30), _inputs(2, 70, kinds=3)),
        Case("equal_smallest", _with(30, largest=0), _inputs(2, 70, kinds=3)),
        Case("all_equal", _with(40), _inputs(60, kinds=1)),
        Case("strange", _with(13), _strange),
        Case("strange_smallest", _with(13, largest=0), _strange),
        Case("some_of_strange", _with(5), _strange),
        Case("none_wanted", _with(0), _inputs(3, 5)),
        Case("no_rows", _with(2), _inputs(0, 5)),
        Case("no_columns", _with(0), _inputs(3, 0)),
        Case("more_than_a_warp_has", _with(150), _numbers(1, 1500)),
        Case("a_block_of_four", _with(3900, largest=0), _numbers(3, 4096), large=True),
        Case("a_block_of_eight", _with(8000), _inputs(2, 8000), large=True),
        Case("a_block_of_twelve", _with(12288), _numbers(2, 12288), large=True),
        Case("selected", _with(5000), _numbers(2, 12289), large=True),
        Case("selected_of_equal", _with(9000, largest=0), _inputs(3, 20_001, kinds=7), large=True),
        Case("selected_of_one", _with(4000), _inputs(1, 50_000, kinds=1), large=True),
        Case("selected_of_columns", _with(4100, axis=0), _inputs(30_000, 3), large=True),
        Case("few_of_many", _with(1), _numbers(5, 30_000), large=True),
        Case("merged", _with(13_000), _inputs(2, 40_000), large=True),
    ),
    benchmarks=(
        Case("rows_of_ten_thousand", _with(5000), _numbers(8, 10_000), large=True),
        Case("row_of_a_million", _with(5000), _numbers(1, 1_000_000), large=True),
    ),
    work=_work,
    workspace=True,
)
