"""Rewrites Det as elimination with partial pivoting, unrolled over the columns: TensorRT has no determinant.

Golub and Van Loan, Matrix Computations, 3.4: the pivots' product, negated for each exchange of rows. A column without
a pivot makes the product zero. Halves are computed in float32.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.importers.builder import TO_END

LARGEST = 32
"""Rows; each costs 20 nodes."""


@node_rule("determinant", "Det")
def determinant_rule(node: NodeView) -> Replacement | Refusal | None:
    """Computes Det by elimination."""
    shape, dtype = node.shape(0), node.dtype(0)
    size = shape[-1] if shape and len(shape) > 1 else None
    size = size if size is not None or not shape or len(shape) < 2 else shape[-2]
    if size is None or size > LARGEST or dtype is None:
        return Refusal(
            f"{node.input(0)!r} has shape {list(shape) if shape else 'unknown'} and type {dtype}",
            f"square matrices of a known size, at most {LARGEST}",
            "fix the sizes of the matrices in the model",
        )
    w, last = Writer(node), len(shape or ()) - 1
    half = dtype in ("float16", "bfloat16")
    kind = "float32" if half else dtype
    if not size:
        ones = w.Expand(w.number(1, dtype), w.slice(w.Shape(w.x[0]), [0], [-2], [0]))
        return Replacement(w.finish(ones), "1, as of matrices without rows")
    determinant = w.number(1, kind)
    matrix = w.Cast(w.x[0], to="float32") if half else w.x[0]
    for rest in range(size, 1, -1):
        matrix, factor = _step(w, matrix, rest, last, kind)
        determinant = w.Mul(determinant, factor)
    scalar = w.Squeeze(w.Mul(determinant, matrix), axes=[last - 1, last])
    return Replacement(
        w.finish(w.Cast(scalar, to=dtype) if half else scalar), "elimination with partial pivoting"
    )


def _step(w: Writer, matrix: Value, rest: int, last: int, kind: str) -> tuple[Value, Value]:
    """One step of elimination: the matrix without its first row and column, and the signed pivot.

    Row p, of the largest entry in the first column, takes the place of row 0; `last` is the last axis.
    """
    one, zero = w.number(1, kind), w.number(0, kind)
    p = w.ArgMax(w.Abs(w.slice(matrix, [0], [1], [last])), axis=last - 1, keepdims=1)
    is_p = w.Equal(np.arange(rest).reshape(rest, 1), p)
    row = w.reduce("ReduceSum", w.Where(is_p, matrix, zero), [last - 1])
    exchanged = w.Where(is_p, w.slice(matrix, [0], [1], [last - 1]), matrix)
    pivot = w.slice(row, [0], [1], [last])
    left = w.slice(exchanged, [1, 0], [TO_END, 1], [last - 1, last])
    others = w.slice(exchanged, [1, 1], [TO_END] * 2, [last - 1, last])
    factor = w.Div(left, w.Where(w.Equal(pivot, zero), one, pivot))
    product = w.Mul(factor, w.slice(row, [1], [TO_END], [last]))
    sign = w.Where(w.slice(is_p, [0], [1], [last - 1]), one, w.number(-1, kind))
    return w.Sub(others, product), w.Mul(pivot, sign)
