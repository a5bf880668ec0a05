"""Expands the reduction of rows of segments into standard ONNX operators: segments as rows of a table."""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Operand, Value
from trtsmith.importers.ops.reduction._rows import MAX, MEAN, MIN


class Rows:
    """Rows [E, ...], to be reduced. count: E, int64[1]. numbers: 0 to E - 1."""

    def __init__(self, g: Builder, source: Operand) -> None:
        self.g = g
        sizes = g.Shape(source)
        self.count, self.other_sizes = sizes[:1], sizes[1:]
        self._columns = g.ReduceProd(g.Concat([1], self.other_sizes, axis=0), keepdims=1)
        self._table = g.Reshape(source, [self.count, self._columns])
        self.numbers = g.arange(self.count)

    def wide_shape(self, segments: Value) -> Value:
        """The shape [S, 1, ...] of a number for each segment."""
        ones = self.g.Where(self.g.Cast(self.other_sizes, to="bool"), [1], [1])
        return self.g.Concat(segments, ones, axis=0)

    def reduce(
        self, reduction: int, counts: Value, starts: Value, order: Value, segments: Value, *, origin: bool
    ) -> tuple[Value, ...]:
        """The reduced rows [S, ...], zero for segments without a row; and, with `origin`, that output.

        counts, starts: of the segments' rows, int64 [S]. order: of the rows, int64 [E].
        """
        g = self.g
        most = g.ReduceMax(g.Concat(counts, [1], axis=0), keepdims=0)
        offsets = g.Range(0, most, 1)
        column = g.vector(segments, 1)
        counts_column = g.Reshape(counts, column)
        place = g.Reshape(starts, column) + offsets
        place = g.Where(offsets < counts_column, place, g.Expand(self.count, column))
        member = g.Gather(g.Concat(order, self.count, axis=0), place, axis=0)  # [S, most]; E for none
        row_shape = g.vector(1, self._columns)
        has_rows = g.Cast(counts_column, to="bool")
        extreme = reduction in (MAX, MIN)
        if extreme:
            signed = -self._table if reduction == MIN else self._table
            least = g.Mul(-3.4e38, 10.0)
            known = g.Where(g.IsNaN(signed), least, signed)
            members = g.Gather(g.Concat(known, g.Expand(least, row_shape), axis=0), member, axis=0)
            reduced = g.ReduceMax(members, axes=[1], keepdims=0)
            reduced = -reduced if reduction == MIN else reduced
        else:
            table = g.Concat(self._table, g.Expand(0.0, row_shape), axis=0)
            members = g.Gather(table, member, axis=0)
            reduced = g.ReduceSum(members, axes=[1], keepdims=0)
            if reduction == MEAN:
                some = g.Where(g.Cast(counts, to="bool"), counts, [1])
                reduced = reduced / g.Reshape(g.Cast(some, to="float32"), column)
        output_shape = g.Concat(segments, self.other_sizes, axis=0)
        output = g.Reshape(g.Where(has_rows, reduced, 0.0), output_shape)
        if not origin:
            return (output,)
        if not extreme:
            return output, g.Reshape(counts, self.wide_shape(segments))
        origins = g.GatherElements(member, g.ArgMax(members, axis=1, keepdims=0), axis=1)
        return output, g.Reshape(g.Where(has_rows, origins, self.count), output_shape)
