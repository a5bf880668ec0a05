"""Det by elimination with partial pivoting, unrolled over the columns: TensorRT has no determinant.

Golub and Van Loan, Matrix Computations, 3.4: the pivots' product, negated for each exchange of rows. A column without
a pivot makes the product zero. Halves are computed in float32.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import reduce, slice_, squeeze
from trtsmith.converter.rewrite.engine.statement_writer import statements
from trtsmith.importers.dtypes import NUMBERS

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
    opset, last = node.opset, len(shape or ()) - 1
    half = dtype in ("float16", "bfloat16")
    kind = np.dtype("float32" if half else dtype)
    constants = {name: np.array(value).astype(kind) for name, value in _NUMBERS.items()}
    lines, current = (
        ["det_0 = Identity (one)", f"matrix = {'Cast <to = 1>' if half else 'Identity'} (x0)"],
        "matrix",
    )
    for column in range(size):
        rest = size - column
        lines.append(_step(f"s{column}", current, f"det_{column}", f"det_{column + 1}", rest, last, opset))
        constants[f"s{column}_rows"] = np.arange(rest).reshape(rest, 1)
        current = f"s{column}_next"
    if not size:
        return Refusal(
            "matrices without rows", "at least one row", "their determinant is 1: write a constant"
        )
    lines.append(squeeze("scalar", f"det_{size}", [last - 1, last], opset))
    narrow = dtype in ("float16", "bfloat16")
    lines.append(f"y0 = {f'Cast <to = {NUMBERS[dtype]}>' if narrow else 'Identity'} (scalar)")
    return Replacement(statements(node, "\n".join(lines), **constants), "elimination with partial pivoting")


_NUMBERS = {"one": 1.0, "minus_one": -1.0, "zero": 0.0}


def _step(at: str, matrix: str, before: str, after: str, rest: int, last: int, opset: int) -> str:
    """Row p, of the largest entry in the first column, takes the place of row 0; `last` is the last axis."""
    everything = (1 << 63) - 1
    if rest == 1:
        return f"{after} = Mul ({before}, {matrix})"
    return f"""
        {slice_(f"{at}_column", matrix, [0], [1], [last], opset)}
        {at}_size = Abs ({at}_column)
        {at}_p = ArgMax <axis = {last - 1}, keepdims = 1> ({at}_size)
        {at}_is_p = Equal ({at}_rows, {at}_p)
        {at}_only_p = Where ({at}_is_p, {matrix}, zero)
        {reduce("ReduceSum", f"{at}_row", f"{at}_only_p", [last - 1], opset)}
        {slice_(f"{at}_top", matrix, [0], [1], [last - 1], opset)}
        {at}_exchanged = Where ({at}_is_p, {at}_top, {matrix})
        {slice_(f"{at}_pivot", f"{at}_row", [0], [1], [last], opset)}
        {slice_(f"{at}_left", f"{at}_exchanged", [1, 0], [everything, 1], [last - 1, last], opset)}
        {slice_(f"{at}_rest", f"{at}_exchanged", [1, 1], [everything] * 2, [last - 1, last], opset)}
        {slice_(f"{at}_right", f"{at}_row", [1], [everything], [last], opset)}
        {at}_none = Equal ({at}_pivot, zero)
        {at}_divisor = Where ({at}_none, one, {at}_pivot)
        {at}_factor = Div ({at}_left, {at}_divisor)
        {at}_product = Mul ({at}_factor, {at}_right)
        {at}_next = Sub ({at}_rest, {at}_product)
        {slice_(f"{at}_kept", f"{at}_is_p", [0], [1], [last - 1], opset)}
        {at}_sign = Where ({at}_kept, one, minus_one)
        {at}_signed = Mul ({at}_pivot, {at}_sign)
        {after} = Mul ({before}, {at}_signed)
    """


DETERMINANT = NodeRule(
    "determinant",
    "Det by elimination",
    ("Det",),
    _rewrite,
)
