"""TopK in other operators of ONNX: a Loop takes the best element that is left of every row, and notes its rank.

A NaN has no place among numbers: it is taken before them where the largest are wanted, and after them otherwise.
"""

from __future__ import annotations

import numpy as np
import onnx

from trtsmith.importers.builder import TO_END, Builder, Value
from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> tuple[Value, Value]:
    """onnxruntime compares float32 and int64, which hold the other types of elements."""
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
