"""Replaces an If that asks whether a tensor is empty by its other branch, where that gives the same for an empty tensor.

torchvision writes `if boxes.numel() == 0: return empty` around its selection of boxes. A plugin that needs a workspace
cannot be in a branch, and TensorRT computes both branches' shapes in any case. That the branches agree follows from the
shapes that operators' own rules give the other branch when the tensor is empty: an output that has no elements there, of the
shape and type of the first branch's, is that branch's output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.rewrite.engine.node_rule import (
    NodeRule,
    NodeView,
    Replacement,
    constant_node,
)
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.profile.range_analysis import RangeAnalysis
from trtsmith.converter.rewrite.profile.size_algebra import SizeExpr
from trtsmith.converter.rewrite.rules.control_flow.branch_ranks import (
    BRANCHES,
    Shape,
    known_shape,
    typed_branch,
)
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import by_name

_BROADCAST = frozenset(
    "Add And Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Or Sub Where".split()  # noqa: SIM905
)
_TOTAL = frozenset(
    """Abs Cast Ceil Clip Concat Constant Exp Floor Identity Log Neg Not ReduceMax ReduceMin ReduceSum Relu Round Shape
    Sigmoid Slice Sqrt Squeeze Transpose Unsqueeze""".split()  # noqa: SIM905
)
"""Operators that give a tensor of the shape that inference says whichever sizes are 0, in TensorRT and in onnxruntime."""


def _rewrite(node: NodeView) -> Replacement | None:
    found = _emptiness(node)
    if found is None:
        return None
    name, empty = found
    other = BRANCHES[1 - BRANCHES.index(empty)]
    sizes = node.derived(_sizes)

    def dims(value: str) -> Sequence[SizeExpr]:
        scope = node.place(value)[0]
        return (sizes.of(scope, value).dims if scope is not None else None) or ()

    zeros = _zeros(dims(name))
    if zeros is None:
        return None

    def shape_of(value: str) -> list[int | None]:
        return [_size_without(dim, zeros) for dim in dims(value)]

    wanted, given = (_outputs(node, node.graph(branch), shape_of) for branch in (empty, other))
    if wanted is None or wanted != given or any(0 not in shape for _, shape in wanted):
        return None
    w = Writer(node)
    nodes = w.finish(*w.inline(node.graph(other)))
    return Replacement(nodes, f"the {other.replace('_', ' ')}, whose outputs are empty where {name!r} is")


def _sizes(graph: Graph) -> RangeAnalysis:
    return RangeAnalysis(graph, ProfileRanges())


def _zeros(dims: Sequence[SizeExpr]) -> frozenset[int] | None:
    """The atoms that are 0 where a tensor of these sizes is empty: those of its one size that may be 0, a sum."""
    unsure = [dim for dim in dims if dim.low <= 0]
    if len(unsure) != 1 or any(len(product) != 1 or factor < 0 for product, factor in unsure[0].terms):
        return None
    return frozenset(unsure[0].atoms())


def _size_without(size: SizeExpr, zeros: frozenset[int]) -> int | None:
    """The size where these atoms are 0; None if it depends on others."""
    left = [(product, factor) for product, factor in size.terms if zeros.isdisjoint(product)]
    return None if any(product for product, _ in left) else sum(factor for _, factor in left)


def _emptiness(node: NodeView) -> tuple[str, str] | None:
    """The tensor of which an If asks whether it has elements, and the branch for one that has none; None for others."""
    empty = True
    maker = node.maker(0)
    while maker is not None and maker.is_a("Cast", "Identity", "Not"):
        empty ^= maker.op_type == "Not"
        maker = maker.maker(0)
    if maker is None or not maker.is_a("Equal", "Greater"):
        return None
    empty ^= maker.op_type == "Greater"
    zero, count = maker.constant(1), maker.maker(0)
    if zero is None or zero.size != 1 or zero.reshape(-1)[0] != 0:
        return None
    while count is not None and count.is_a("Cast", "Identity", "Squeeze", "Unsqueeze"):
        count = count.maker(0)
    if count is not None and count.is_a("ReduceProd") and not count.input(1) and not count.given("axes"):
        count = count.maker(0)
        if count is None or not count.is_a("Shape") or count.given("start") or count.given("end"):
            return None
    elif count is None or not count.is_a("Size"):
        return None
    return count.input(0), BRANCHES[0 if empty else 1]


def _outputs(
    node: NodeView, graph: onnx.GraphProto, shape_of: Callable[[str], Sequence[int | None]]
) -> list[tuple[int, Shape]] | None:
    """Element types and shapes of a branch's outputs; None if one is not known, or a node may fail."""
    branch = onnx.GraphProto()
    branch.CopyFrom(graph)
    while True:
        inferred = typed_branch(node, branch, shape_of)
        if inferred is None:
            return None
        values = (*inferred.input, *inferred.value_info, *inferred.output)
        shapes = {v.name: shape for v in values if (shape := known_shape(v.type)) is not None}
        nodes = [
            new for one in branch.node for new in (_nothing(one) if _selects_nothing(one, shapes) else [one])
        ]
        if nodes == [*branch.node]:
            break
        del branch.node[:]
        branch.node.extend(nodes)
    if not all(_never_fails(inner, shapes) for inner in nodes):
        return None
    if any(value.name not in shapes for value in inferred.output):
        return None
    return [(value.type.tensor_type.elem_type, shapes[value.name]) for value in inferred.output]


def _never_fails(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    if node.domain:
        return False
    if node.op_type == "Gather":  # of nothing there is nothing to take
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        data = shapes.get(node.input[0])
        return data is not None and data[axis] > 0
    if node.op_type in _BROADCAST:  # inference lets 0 and 9 pass as equal
        given = [shapes.get(name) for name in node.input]
        try:
            np.broadcast_shapes(*(shape for shape in given if shape is not None))
        except ValueError:
            return False
        return None not in given
    return node.op_type in _TOTAL


def _selects_nothing(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether it is a selection among no boxes."""
    named = not node.domain and node.op_type == "NonMaxSuppression"
    op = by_name().get(node.op_type) if node.domain == PLUGIN_NAMESPACE else None
    if not named and (op is None or op.onnx != "NonMaxSuppression"):
        return False
    return 0 in shapes.get(node.input[1], ())


def _nothing(selection: onnx.NodeProto) -> list[onnx.NodeProto]:
    """What a selection gives of no boxes: int64[0, 3], and, as our plugin has it, their number."""
    given = (np.zeros((0, 3), np.int64), np.array(0, np.int64))
    return [constant_node(name, value) for name, value in zip(selection.output, given, strict=False) if name]


EMPTY_IF = NodeRule(
    "empty-if",
    "an If that asks whether a tensor is empty, and whose other branch gives the same for one that is",
    ("If",),
    _rewrite,
)
