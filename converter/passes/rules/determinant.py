"""Det, which TensorRT does not import: Gaussian elimination with partial pivoting, as LAPACK's LU has it, unrolled.

A step takes the row with the largest first element, multiplies the determinant by that element, changes its sign if
rows were swapped, and leaves a matrix that is smaller by one.
"""

from __future__ import annotations

import numpy as np

from converter.passes.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from converter.passes.statement_writer import Writer

_LARGEST = 16
"""Size up to which it is unrolled, at about twenty small nodes a step."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    shape, dtype = node.shape(0), node.dtype(0)
    size = shape[-1] if shape else None
    if shape is None or dtype is None or size is None or size > _LARGEST:
        return Refusal(
            f"Det of {node.input(0)!r}, a matrix of {'unknown size' if size is None else f'{size} rows'}",
            f"a known type, and at most {_LARGEST} rows: elimination is unrolled",
            "give the input a fixed size, or compute the determinant outside of the network",
        )
    rank = len(shape)
    w = Writer(node)
    work = "float32" if dtype in ("float16", "bfloat16") else dtype
    matrix = w.cast("x0", work) if work != dtype else "x0"
    result = ""
    for left in range(size, 0, -1):
        pivot, rest = _step(w, matrix, rank, left, work)
        result = w.do("Mul", result, pivot) if result else pivot
        matrix = rest
    if not result:
        return Refusal("Det of an empty matrix", "at least one row", "the determinant of nothing is 1")
    flat = w.squeeze(result, [rank - 2, rank - 1])
    if work == dtype:
        w.do("Identity", flat, result="y0")
    else:
        w.cast(flat, dtype, result="y0")
    return Replacement(w.nodes(), f"Det of {size} x {size} by unrolled elimination")


def _step(w: Writer, matrix: str, rank: int, left: int, dtype: str) -> tuple[str, str]:
    """The signed pivot [..., 1, 1] and the matrix that is left, "" after the last step."""
    rows, columns = rank - 2, rank - 1
    if left == 1:
        return matrix, ""
    one, zero = w.number(1.0, dtype), w.number(0.0, dtype)
    column = w.slice_(matrix, [0], [1], [columns])  # [..., left, 1]
    best = w.do("ArgMax", w.do("Abs", column), axis=rows, keepdims=1)  # the first of equal ones
    numbers = w.const(np.arange(left).reshape(left, 1))
    chosen = w.do("Equal", numbers, best)  # [..., left, 1]
    row = w.reduce("ReduceSum", w.do("Where", chosen, matrix, zero), [rows])  # [..., 1, left]
    pivot = w.slice_(row, [0], [1], [columns])
    swapped = w.do("Where", chosen, w.slice_(matrix, [0], [1], [rows]), matrix)
    below = w.slice_(swapped, [1], [left], [rows])
    kept = w.do("Equal", best, w.number(0, "int64"))
    signed = w.do("Where", kept, pivot, w.do("Neg", pivot))
    # A pivot of zero is the determinant's zero; what is left of the matrix does not matter then.
    divisor = w.do("Where", w.do("Equal", pivot, zero), one, pivot)
    factor = w.do("Div", w.slice_(below, [0], [1], [columns]), divisor)
    tail = w.slice_(row, [1], [left], [columns])
    return signed, w.do("Sub", w.slice_(below, [1], [left], [columns]), w.do("Mul", factor, tail))


_EXAMPLES = (
    Example(
        "batch, with a singular one and a zero pivot",
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2, 2, 4, 4] x) => (float[2, 2] y) { y = Det (x) }""",
        feeds={
            "x": np.array(
                [
                    [np.ones((4, 4)), np.eye(4)[[1, 2, 0, 3]] * 3],
                    [np.vander([1.0, -2.0, 0.5, 3.0]), np.arange(16).reshape(4, 4) ** 2 % 11],
                ],
                np.float32,
            )
        },
        atol=1e-4,
    ),
    Example(
        "one matrix",
        """<ir_version: 8, opset_import: ["" : 11]>
        g (float[5, 5] x) => (float y) { y = Det (x) }""",
        rtol=1e-4,
    ),
)

DETERMINANT = NodeRule("determinant", "Det becomes an unrolled elimination", ("Det",), _rewrite, _EXAMPLES)
