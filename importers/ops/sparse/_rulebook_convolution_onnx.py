"""Expands the convolution along a rulebook into standard ONNX operators: a loop over the taps of the kernel."""

from __future__ import annotations

from trtsmith.importers.builder import Builder, Value
from trtsmith.importers.opdef import Expansion


def expand(expansion: Expansion) -> Value:
    """Rows gathered and multiplied tap by tap, so that no more than one tap's rows are held at a time."""
    g = Builder(expansion.opset)
    feature_sizes, pair_sizes = g.Shape("features"), g.Shape("pairs")
    feature_rows, channels = feature_sizes[:1], feature_sizes[1:2]
    taps, rows = pair_sizes[:1], pair_sizes[1:2]
    filters = g.Shape("weights")[:1]
    table = g.Concat("features", g.Expand([0.0], [1, channels]), axis=0)
    pairs = g.Cast("pairs", to="int64")
    there = ~(pairs < 0) & (pairs < feature_rows)
    row_of_each = g.Where(there, pairs, feature_rows)
    matrices = g.Transpose(g.Reshape("weights", [filters, taps, channels]), perm=[1, 2, 0])
    column_shape = g.vector(rows, 1)

    def add_tap(i: Value, go: Value, total: Value) -> tuple[Value, Value]:
        read = g.Gather(table, g.Gather(row_of_each, i, axis=0), axis=0)
        product = g.MatMul(read, g.Gather(matrices, i, axis=0))
        counted = g.Reshape(g.Gather(there, i, axis=0), column_shape)
        return go, total + g.Where(counted, product, 0.0)

    signature = "(int64 i, bool keep, float[m, o] before) => (bool keep_on, float[m, o] after)"
    start = g.Expand([0.0], [rows, filters])
    total = g.Loop(g.Squeeze(taps), True, start, body=g.graph(signature, add_tap))
    if "bias" in expansion.present:
        total = total + "bias"
    match expansion.fields["activation"]:
        case 1:
            return g.Relu(total)
        case 2:
            return g.Sigmoid(total)
        case 3:
            return g.LeakyRelu(total, alpha=float(expansion.fields["slope"]))
    return total
