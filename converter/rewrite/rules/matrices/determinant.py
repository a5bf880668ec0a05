"""Rewrites Det as elimination with partial pivoting, unrolled over the columns: TensorRT has no determinant.

Golub and Van Loan, Matrix Computations, 3.4: the pivots' product, negated for each exchange of rows. A column without
a pivot makes the product zero. Halves are computed in float32.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.importers.builder import TO_END

LARGEST = 32
"""Rows; each costs 20 nodes."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape, dtype = node.shape(0), node.dtype(0)
    size = shape[-1] if shape and len(shape) > 1 else None
    size = size if size is not None or not shape or len(shape) < 2 else shape[-2]
    if size is None or size > LARGEST or dtype is None:
        return Refusal(
            f"{node.input(0)!r} has shape {list(shape) if shape else 'unknown'} and type {dtype}",
            f"square matrices of a known size, at most {LARGEST}",
            "fix the sizes of the matrices in the model",
        )
    if not size:
        return Refusal(
            "matrices without rows", "at least one row", "their determinant is 1: write a constant"
        )
    w, last = Writer(node), len(shape or ()) - 1
    half = dtype in ("float16", "bfloat16")
    kind = "float32" if half else dtype
    determinant = w.do("Identity", w.number(1, kind))
    matrix = w.cast("x0", "float32") if half else w.do("Identity", "x0")
    for rest in range(size, 1, -1):
        matrix, factor = _step(w, matrix, rest, last, kind)
        determinant = w.do("Mul", determinant, factor)
    scalar = w.squeeze(w.do("Mul", determinant, matrix), [last - 1, last])
    _ = w.cast(scalar, dtype, "y0") if half else w.do("Identity", scalar, result="y0")
    return Replacement(w.nodes(), "elimination with partial pivoting")


def _step(w: Writer, matrix: str, rest: int, last: int, kind: str) -> tuple[str, str]:
    """The matrix without its first row and column, and the pivot with its sign.

    Row p, of the largest entry in the first column, takes the place of row 0; `last` is the last axis.
    """
    one, zero = w.number(1, kind), w.number(0, kind)
    p = w.do("ArgMax", w.do("Abs", w.slice_(matrix, [0], [1], [last])), axis=last - 1, keepdims=1)
    is_p = w.do("Equal", np.arange(rest).reshape(rest, 1), p)
    row = w.reduce("ReduceSum", w.do("Where", is_p, matrix, zero), [last - 1])
    exchanged = w.do("Where", is_p, w.slice_(matrix, [0], [1], [last - 1]), matrix)
    pivot = w.slice_(row, [0], [1], [last])
    left = w.slice_(exchanged, [1, 0], [TO_END, 1], [last - 1, last])
    others = w.slice_(exchanged, [1, 1], [TO_END] * 2, [last - 1, last])
    factor = w.do("Div", left, w.do("Where", w.do("Equal", pivot, zero), one, pivot))
    product = w.do("Mul", factor, w.slice_(row, [1], [TO_END], [last]))
    sign = w.do("Where", w.slice_(is_p, [0], [1], [last - 1]), one, w.number(-1, kind))
    return w.do("Sub", others, product), w.do("Mul", pivot, sign)


DETERMINANT = NodeRule(
    "determinant",
    "Det by elimination",
    ("Det",),
    _rewrite,
)
