"""Rewrites OneHot and Hardmax of a depth known at run time as a comparison with the indices of the axis.

TensorRT wants the depth as a constant of the build ("Depth input of IOneHotLayer must be a build time constant"), its
parser flattens no Hardmax before opset 13 that has several unknown sizes, and it takes none of no elements ("K of 1 not
consistent with axis 1 of length 0").
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer


def _varies(node: NodeView) -> bool:
    """Whether the depth is known at run time only, which TensorRT does not take."""
    if node.op_type == "OneHot":
        return not node.is_constant(1)
    shape = node.shape(0)
    if shape is None:
        return False
    flat = node.opset < 13
    axis = _axis(node, len(shape))
    return not shape[axis] or (flat and (shape.count(None) > 1 or None in shape[axis:]))


def _axis(node: NodeView, rank: int) -> int:
    return int(node.attributes.get("axis", 1 if node.opset < 13 else -1)) % rank


def _range_opset(node: NodeView) -> int:
    """The opset that the rewrite needs: that of Range if the depth varies."""
    return 11 if _varies(node) else 1


@node_rule("dynamic-one-hot", "OneHot", opset=_range_opset)
def dynamic_one_hot_rule(node: NodeView) -> Replacement | None:
    """Rewrites OneHot of a depth known at run time."""
    if not _varies(node):
        return None
    rank = node.known_rank(0)
    w = Writer(node)
    axis = int(node.attributes.get("axis", -1)) % (rank + 1)
    depth = w.Reshape(w.x[1] if node.dtype(1) == "int64" else w.Cast(w.x[1], to="int64"), shape=[1])
    index = w.x[0] if node.dtype(0) == "int64" else w.Cast(w.x[0], to="int64")
    index = w.Where(w.Less(index, [0]), w.Add(index, depth), index)
    hit = _hit(w, w.Unsqueeze(index, axes=[axis]), depth, axis, rank + 1)
    off, on = (w.Gather(w.x[2], [i], axis=0) for i in (0, 1))
    return Replacement(w.finish(w.Where(hit, on, off)), "a comparison with the numbers of the axis")


@node_rule("dynamic-hardmax", "Hardmax", opset=_range_opset)
def dynamic_hardmax_rule(node: NodeView) -> Replacement | None:
    """Rewrites Hardmax along an axis whose size varies, or is 0."""
    rank, dtype = node.rank(0), node.dtype(0)
    if rank is None or dtype is None or not _varies(node):
        return None
    w, axis = Writer(node), _axis(node, rank)
    if (node.shape(0) or ())[axis] == 0:
        return Replacement(w.finish(w.Identity(w.x[0])), "nothing, as there are no elements")
    flat = node.opset < 13 and axis < rank - 1
    data, axis, rank = (w.Flatten(w.x[0], axis=axis), 1, 2) if flat else (w.x[0], axis, rank)
    hit = _hit(w, w.ArgMax(data, axis=axis, keepdims=1), w.size(data, axis), axis, rank)
    result = w.Cast(hit, to=dtype)
    return Replacement(
        w.finish(w.Reshape(result, w.shape(w.x[0])) if flat else result),
        "a comparison with the numbers of the axis",
    )


def _hit(w: Writer, index: Value, depth: Value, axis: int, rank: int) -> Value:
    """Where the position along the axis equals the index. index: int64, size 1 along the axis. depth: int64[1]."""
    column = [1] * rank
    column[axis] = -1
    return w.Equal(index, w.Reshape(w.arange(depth), shape=column))
