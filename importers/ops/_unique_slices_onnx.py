"""Unique in other operators of ONNX: slices in lexicographic order by one stable sort for each of their elements.

TopK is stable, as ONNX defines it: of equal elements the one with the lower index comes first. So the order is that of a
radix sort, from the last element of the slices to the first, and equal slices lie side by side in the order of their
positions. A NaN is sorted by a flag of its own, behind all numbers.
"""

from __future__ import annotations

from trtsmith.importers.builder import TO_END, Builder, Value
from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> tuple[Value, ...]:
    """onnxruntime sorts float32 and int64, which hold the other types of elements."""
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
