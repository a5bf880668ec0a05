"""Rewrites If with a constant condition, with branches of different ranks, or with a branch for empty tensors.

Replaces an If that asks whether a tensor is empty by its other branch, where that gives the same for an empty tensor.

torchvision writes `if boxes.numel() == 0: return empty` around its selection of boxes. A plugin that needs a workspace
cannot be in a branch, and TensorRT computes both branches' shapes in any case. That the branches agree follows from the
shapes that operators' own rules give the other branch when the tensor is empty: an output that has no elements there, of the
shape and type of the first branch's, is that branch's output.

Gives both branches of an If outputs of one rank, where they differ in dimensions of size 1 alone.

A branch that Paddle or PyTorch traced gives a number as [] in one branch and as [1] in the other, and what reads it takes
both. TensorRT builds no If of a condition that is computed at run time whose branches have outputs of different ranks.

Replaces an If whose condition is constant only since folding by the branch that runs.

TensorRT-RTX 1.7.1 imports only the live branch where the condition is a constant of the graph. Where the graph computes
it (from fixed shapes, say), both branches are imported, and both have to be right: their operators known, their types
equal, their shapes possible. A Squeeze of an axis that is not 1 in the branch that never runs fails the build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

import numpy as np
import onnx
from onnx import helper

from trtsmith.converter.graph.constant_nodes import branch_of
from trtsmith.converter.graph.graph import Graph
from trtsmith.converter.graph.infer import inferred_proto
from trtsmith.converter.graph.operator_groups import BROADCASTING
from trtsmith.converter.graph.walk import refill, values_read
from trtsmith.converter.rewrite.engine.node_rule import (
    NodeView,
    Refusal,
    Replacement,
    constant_node,
    node_rule,
)
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.profile.profile_ranges import ProfileRanges
from trtsmith.converter.rewrite.profile.range_analysis import RangeAnalysis
from trtsmith.converter.rewrite.profile.size_algebra import SizeExpr
from trtsmith.importers.opdef import PLUGIN_NAMESPACE
from trtsmith.importers.registry import by_name

BRANCHES = ("then_branch", "else_branch")

Shape = tuple[int, ...]


@node_rule("branch-ranks", "If")
def branch_ranks_rule(node: NodeView) -> Replacement | None:
    """Gives both branches of an If outputs of one rank, where they are single elements of different ranks."""
    if node.is_constant(0):
        return None
    graphs = [node.graph(name) for name in BRANCHES]
    ranks = [_wanted_rank(*shapes) for shapes in zip(*(_output_shapes(node, g) for g in graphs), strict=True)]
    if all(rank is None for rank in ranks):
        return None
    w = Writer(node)
    branches = {name: _with_ranks(node, g, ranks) for name, g in zip(BRANCHES, graphs, strict=True)}
    results = w.If(w.x[0], outputs=[bool(name) for name in node.outputs], **branches)
    numbers = ", ".join(str(i) for i, rank in enumerate(ranks) if rank is not None)
    return Replacement(w.finish(*results), f"If, output {numbers} of one rank in both branches")


def _wanted_rank(one: Shape | None, other: Shape | None) -> int | None:
    """The smaller rank of two shapes of one element each; None if the ranks agree, or for other or unknown shapes."""
    if one is None or other is None or len(one) == len(other) or {*one, *other} - {1}:
        return None
    return min(len(one), len(other))


def _with_ranks(node: NodeView, graph: onnx.GraphProto, ranks: Sequence[int | None]) -> onnx.GraphProto:
    """The branch with its single-element outputs reshaped to these ranks."""
    changed = deepcopy(graph)
    for output, rank in zip(changed.output, ranks, strict=True):
        if rank is None:
            continue
        given, ones = output.name, node.fresh("ones")
        output.CopyFrom(
            helper.make_tensor_value_info(
                node.fresh("ranked"), output.type.tensor_type.elem_type, (1,) * rank
            )
        )
        shape = helper.make_tensor(ones, onnx.TensorProto.INT64, [rank], [1] * rank)
        changed.node.append(helper.make_node("Constant", [], [ones], value=shape))
        changed.node.append(helper.make_node("Reshape", [given, ones], [output.name]))
    return changed


def _output_shapes(node: NodeView, graph: onnx.GraphProto) -> list[Shape | None]:
    """The shapes that ONNX infers for a branch's outputs; None for unknown ones."""
    inferred = typed_branch(node, graph)
    if inferred is None:
        return [None] * len(graph.output)
    return [known_shape(output.type) for output in inferred.output]


def typed_branch(
    node: NodeView, graph: onnx.GraphProto, shape_of: Callable[[str], Sequence[int | None]] | None = None
) -> onnx.GraphProto | None:
    """Returns the branch with the values that it reads as inputs, and with types that ONNX infers anew; None where inference
    fails. shape_of: sizes to assume for the values that it reads, None for unknown ones.
    """
    branch = deepcopy(graph)
    del branch.value_info[:]
    for output in branch.output:
        output.type.tensor_type.ClearField("shape")
    made = {name for inner in branch.node for name in inner.output} | {t.name for t in branch.initializer}
    for name in dict.fromkeys(name for inner in branch.node for name in values_read(inner)):
        type_ = node.type_of(name) if name and name not in made else None
        if type_ is not None:
            branch.input.append(onnx.ValueInfoProto(name=name, type=type_))
            dims = branch.input[-1].type.tensor_type.shape.dim
            for dim, size in zip(dims, shape_of(name) if shape_of else (), strict=False):
                if size is not None:
                    dim.dim_value = size
    model = helper.make_model(branch, opset_imports=[helper.make_opsetid("", node.opset)])
    try:
        return inferred_proto(model).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return None


def known_shape(type_: onnx.TypeProto) -> Shape | None:
    tensor = type_.tensor_type
    if not type_.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None


_NEVER_FAIL = frozenset(
    """Abs Acos Asin Atan Cast Ceil Constant Cos Elu Erf Exp Floor HardSigmoid Identity IsNaN LeakyRelu Log Neg Not
    Reciprocal Relu Round Selu Shape Sigmoid Sign Sin Size Softplus Softsign Sqrt Tan Tanh""".split()  # noqa: SIM905
)
"""Operators that TensorRT imports and that no shape of their input makes impossible."""


@node_rule("constant-if", "If")
def constant_if_rule(node: NodeView) -> Replacement | Refusal | None:
    """Replaces an If whose computed condition is constant by the branch that runs."""
    condition = node.constant(0)
    if condition is None or not (node.made or (node.folded(0) and not _both_are_right(node.proto))):
        return None
    branch = branch_of(condition)
    w = Writer(node)
    return Replacement(
        w.finish(*w.inline(node.graph(branch))),
        f"the {branch.replace('_', ' ')}, as the condition is constant",
    )


def _both_are_right(proto: onnx.NodeProto) -> bool:
    """Whether TensorRT certainly imports both branches."""
    graphs = [a.g for a in proto.attribute if a.type == onnx.AttributeProto.GRAPH]
    types = [[value.type.tensor_type.elem_type for value in graph.output] for graph in graphs]
    known = all(inner.op_type in _NEVER_FAIL and not inner.domain for graph in graphs for inner in graph.node)
    return known and types[0] == types[-1] and all(types[0])


_BROADCAST = BROADCASTING - {"Div", "Pow"}
_TOTAL = frozenset(
    """Abs Cast Ceil Clip Concat Constant Exp Floor Identity Log Neg Not ReduceMax ReduceMin ReduceSum Relu Round Shape
    Sigmoid Slice Sqrt Squeeze Transpose Unsqueeze""".split()  # noqa: SIM905
)
"""Operators that give a tensor of the shape that inference says whichever sizes are 0, in TensorRT and in onnxruntime."""


@node_rule("empty-if", "If")
def empty_if_rule(node: NodeView) -> Replacement | None:
    """Replaces an If that tests whether a tensor is empty by its general branch, when both branches give the same result."""
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
    """The atoms of the one size that may be 0: all of them are 0 when a tensor of these sizes is empty."""
    unsure = [dim for dim in dims if dim.low <= 0]
    if len(unsure) != 1 or any(len(product) != 1 or factor < 0 for product, factor in unsure[0].terms):
        return None
    return frozenset(unsure[0].atoms())


def _size_without(size: SizeExpr, zeros: frozenset[int]) -> int | None:
    """The size with these atoms set to 0; None if it depends on others."""
    left = [(product, factor) for product, factor in size.terms if zeros.isdisjoint(product)]
    return None if any(product for product, _ in left) else sum(factor for _, factor in left)


def _emptiness(node: NodeView) -> tuple[str, str] | None:
    """The tensor that an If tests for emptiness, and the branch for the empty case; None for other conditions."""
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
    """Element types and shapes of a branch's outputs; None if one is unknown or a node may fail."""
    branch = deepcopy(graph)
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
        refill(branch.node, nodes)
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
    """Whether the node is a NonMaxSuppression without boxes."""
    named = not node.domain and node.op_type == "NonMaxSuppression"
    op = by_name().get(node.op_type) if node.domain == PLUGIN_NAMESPACE else None
    if not named and (op is None or op.onnx != "NonMaxSuppression"):
        return False
    return 0 in shapes.get(node.input[1], ())


def _nothing(selection: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The results of a NonMaxSuppression without boxes: int64[0, 3] and, for our plugin, their count of 0."""
    given = (np.zeros((0, 3), np.int64), np.array(0, np.int64))
    return [constant_node(name, value) for name, value in zip(selection.output, given, strict=False) if name]
