"""Writes a node in the form that the profile's sizes decide: explicit axes, a numeric target, or the live branch."""

from __future__ import annotations

import onnx

from trtsmith.converter.graph.node import Node
from trtsmith.converter.graph.write_back import up_to_date
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.profile.known_value import KnownValue
from trtsmith.converter.rewrite.profile.range_analysis import RangeAnalysis
from trtsmith.converter.rewrite.profile.size_algebra import MOST, SizeExpr
from trtsmith.converter.rewrite.rules.scatter.scatter_elements import rewrite_scatter


def squeeze_form(node: Node, analysis: RangeAnalysis) -> list[onnx.NodeProto] | None:
    """With its axes, where it has none: those of size 1 in all of the profile, if the others never are 1."""
    if len(node.inputs) > 1 or any(a.name == "axes" for a in node.proto.attribute):
        return None
    dims = analysis.of(node.scope, node.inputs[0]).dims
    if dims is None or any(size.number is None and size.low <= 1 <= size.high for size in dims):
        return None
    w = Writer(NodeView(node.proto, node.name, node.scope))
    return w.finish(w.squeeze(w.x[0], [axis for axis, size in enumerate(dims) if size.number == 1]))


def reshape_form(node: Node, analysis: RangeAnalysis) -> list[onnx.NodeProto] | None:
    """With a target of numbers, where it is computed: a 0 for a size that is copied, and one -1 at most."""
    if len(node.inputs) != 2 or not all(node.inputs) or node.scope.is_constant(node.inputs[1]):
        return None
    data, made = (analysis.of(node.scope, name) for name in (node.inputs[0], node.outputs[0]))
    target = _target(data, made)
    if target is None:
        return None
    w = Writer(NodeView(node.proto, node.name, node.scope))
    return w.finish(w.Reshape(w.x[0], target))


def scatter_form(node: Node, analysis: RangeAnalysis) -> list[onnx.NodeProto] | None:
    """By ScatterND, where there are more indices than rows: always, or in the largest shapes. Else None.

    One with a reduction is left to the rules, which write it for any sizes.
    """
    view = NodeView(node.proto, node.name, node.scope)
    if len(node.inputs) != 3 or view.attributes.get("reduction", "none") != "none":
        return None
    data, indices = (analysis.of(node.scope, name).dims for name in node.inputs[:2])
    if data is None or indices is None or len(data) != len(indices):
        return None
    if not any(_beyond(analysis, size, count) for size, count in zip(data, indices, strict=True)):
        return None
    written = rewrite_scatter(view, fits=False)
    return list(written.nodes) if isinstance(written, Replacement) else None


def _beyond(analysis: RangeAnalysis, size: SizeExpr, count: SizeExpr) -> bool:
    fits = analysis.algebra.less(size, count).number == 0
    certain = analysis.algebra.less(size, count).number == 1
    return certain or (not fits and size.high < count.high < MOST)


def inlined(node: Node, branch: str) -> list[onnx.NodeProto]:
    """The nodes of a branch, which make the outputs of the If."""
    view = NodeView(up_to_date(node), node.name, node.scope)
    w = Writer(view)
    return w.finish(*w.inline(view.graph(branch)))


def _target(data: KnownValue, made: KnownValue) -> list[int] | None:
    """The sizes as a Reshape takes them, with one -1 at most, and none beside a size that may be 0. Else None."""
    if made.dims is None:
        return None
    target: list[int] = []
    for axis, size in enumerate(made.dims):
        if size.number is not None:
            if size.number < 1:
                return None
            target.append(size.number)
        elif data.dims is not None and axis < len(data.dims) and data.dims[axis] == size:
            target.append(0)
        else:
            target.append(-1)
    holes = target.count(-1)
    empty = any(size.low < 1 for size, entry in zip(made.dims, target, strict=True) if entry != -1)
    return None if holes > 1 or (holes and empty) else target
