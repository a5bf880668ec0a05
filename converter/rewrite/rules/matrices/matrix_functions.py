"""Rewrites functions of matrices that TensorRT lacks: Det, Trilu, EyeLike of computed sizes, products of vectors.

Rewrites Trilu of an upper triangle as a selection by row and column numbers.

TensorRT-RTX 1.6.1 computes the lower triangle instead (seen on an H200 for int64, with every k; lower ones are right). It
makes the mask as "row < column or row = column", for every element type, so that no type is taken to be spared.

Rewrites Det as elimination with partial pivoting, unrolled over the columns: TensorRT has no determinant.

Golub and Van Loan, Matrix Computations, 3.4: the pivots' product, negated for each exchange of rows. A column without
a pivot makes the product zero. Halves are computed in float32.

Gives vectors a dimension of one where TensorRT wants a matrix, and takes it away again.

TensorRT-RTX 1.7.1 refuses ArgMax, ArgMin, Hardmax, LogSoftmax and Softmax of a vector ("at least 2 dimensions are
required"), and loses a dimension in the product of a vector with a stack of matrices.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.target import Fault
from trtsmith.importers.builder import TO_END
from trtsmith.importers.dtypes import NUMBERS

LARGEST = 32
"""Rows; each costs 20 nodes."""


@node_rule("determinant", "Det")
def determinant_rule(node: NodeView) -> Replacement | Refusal | None:
    """Det by elimination."""
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
    """The matrix without its first row and column, and the pivot with its sign.

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


@node_rule("dynamic-eye", "EyeLike")
def dynamic_eye_rule(node: NodeView) -> Replacement | Refusal | None:
    """EyeLike of a matrix of dynamic size."""
    shape = node.shape(0)
    if shape is not None and None not in shape:
        return None
    wanted = node.attributes.get("dtype") or NUMBERS.get(node.dtype(0) or "")
    if not wanted:
        return Refusal(
            f"the element type of {node.input(0)!r} is unknown",
            "a dtype attribute, or a tensor of known type",
            "run onnx.shape_inference on the model, so that types are known",
        )
    w = Writer(node)
    sizes = w.Shape(w.x[0])
    height, width = (w.Gather(sizes, axis, axis=0) for axis in (0, 1))
    rows, columns = (w.Range(0, size, 1) for size in (height, width))
    diagonal = w.Add(w.Unsqueeze(rows, axes=[1]), int(node.attributes.get("k", 0)))
    return Replacement(
        w.finish(w.Cast(w.Equal(diagonal, columns), to=wanted)), "a comparison of row and column numbers"
    )


@node_rule("vectors", "ArgMax", "ArgMin", "Hardmax", "LogSoftmax", "MatMul", "Softmax")
def vectors_rule(node: NodeView) -> Replacement | Refusal | None:
    """vectors as matrices of one row."""
    if node.rank(0) != 1:
        return None
    return _product(node) if node.op_type == "MatMul" else _along_it(node)


def _product(node: NodeView) -> Replacement | None:
    right = node.rank(1)
    if right is None or right < 3:
        return None
    w = Writer(node)
    return Replacement(
        w.finish(w.Squeeze(w.MatMul(w.Unsqueeze(w.x[0], axes=[0]), w.x[1]), axes=[right - 2])),
        "the vector as a matrix of one row",
    )


def _along_it(node: NodeView) -> Replacement:
    """Along the only axis. Softmax before opset 13 makes a matrix of its input: of one row, here as well."""
    w = Writer(node)
    scalar = node.op_type.startswith("Arg") and not node.attributes.get("keepdims", 1)
    row = w.Unsqueeze(w.x[0], axes=[0])
    result = w.write(node.op_type, row, axis=1, **node.own("select_last_index"))
    return Replacement(
        w.finish(w.squeeze(result, [0, 1] if scalar else [0])), "the vector as a matrix of one row"
    )


_FAULTS = (
    Fault(
        "tensorrt_rtx",
        ("1.6.1",),
        "gives the lower triangle for the upper one",
        "an engine run on an H200",
    ),
    Fault(
        "tensorrt",
        ("10.1",),
        "gives the lower triangle for the upper one",
        "the source of its ONNX parser, which takes upper = 0 for the default, where ONNX has 1",
    ),
)


@node_rule("upper-triangle", "Trilu", faults=_FAULTS)
def upper_triangle_rule(node: NodeView) -> Replacement | Refusal | None:
    """Trilu of an upper triangle, of which TensorRT gives the lower one."""
    if not node.attributes.get("upper", 1):
        return None
    shape, dtype = node.shape(0), node.dtype(0)
    if shape is None or dtype is None:
        return Refusal(
            f"the {'rank' if shape is None else 'element type'} of {node.input(0)!r}, of which Trilu takes a part",
            "an input whose type and rank shape inference finds",
            "run onnx.shape_inference on the model, or give the input's shape",
        )
    w = Writer(node)
    rows, columns = (_numbers(w, shape, axis) for axis in (-2, -1))
    # int64[rows, 1] plus k: what lies left of it is below the diagonal
    diagonal = w.Unsqueeze(rows, axes=[1])
    if node.input(1):
        diagonal = w.Add(diagonal, w.Reshape(w.x[1], shape=[1]))
    if dtype == "bool":
        result = w.And(w.x[0], w.Not(w.Greater(diagonal, columns)))
    else:
        result = w.Where(w.Greater(diagonal, columns), w.number(0.0, dtype), w.x[0])
    return Replacement(
        w.finish(result),
        "a comparison of row and column numbers",
        notes=(node.because(_FAULTS, "Trilu is written with a comparison"),),
    )


def _numbers(w: Writer, shape: tuple[int | None, ...], axis: int) -> Value:
    """0, 1, ... for each place along an axis, counted from the last; int64."""
    size = shape[axis]
    return w.arange(w.size(w.x[0], len(shape) + axis)) if size is None else w.constant(w.numbers(size))
