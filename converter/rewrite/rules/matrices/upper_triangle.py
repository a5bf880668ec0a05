"""Rewrites Trilu of an upper triangle as a selection by row and column indices.

TensorRT-RTX 1.6.1 computes the lower triangle instead (seen on an H200 for int64, with every k; lower ones are right). It
makes the mask as "row < column or row = column", for every element type, so that no type is taken to be spared.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.target import Fault

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
    """Rewrites Trilu of an upper triangle, for which TensorRT gives the lower one."""
    if not node.attributes.get("upper", 1):
        return None
    shape, dtype = node.known_shape(0), node.known_dtype(0)
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
    """The indices 0, 1, ... along an axis, which counts from the last; int64."""
    size = shape[axis]
    return w.arange(w.size(w.x[0], len(shape) + axis)) if size is None else w.constant(w.numbers(size))
