"""Gives both branches of an If outputs of one rank, where they differ in dimensions of size 1 alone.

A branch that Paddle or PyTorch traced gives a number as [] in one branch and as [1] in the other, and what reads it takes
both. TensorRT builds no If of a condition that is computed at run time whose branches have outputs of different ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import helper

from trtsmith.converter.graph.infer import inferred_proto
from trtsmith.converter.graph.walk import values_read
from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer

BRANCHES = ("then_branch", "else_branch")

Shape = tuple[int, ...]


def _rewrite(node: NodeView) -> Replacement | None:
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
    """The smaller rank of two shapes of one element each; None where they are of one rank, of more elements or unknown."""
    if one is None or other is None or len(one) == len(other) or {*one, *other} - {1}:
        return None
    return min(len(one), len(other))


def _with_ranks(node: NodeView, graph: onnx.GraphProto, ranks: Sequence[int | None]) -> onnx.GraphProto:
    """The branch with outputs of one element reshaped to these ranks."""
    changed = onnx.GraphProto()
    changed.CopyFrom(graph)
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
    """What ONNX's inference finds for a branch's outputs; None for what is not known."""
    inferred = typed_branch(node, graph)
    if inferred is None:
        return [None] * len(graph.output)
    return [known_shape(output.type) for output in inferred.output]


def typed_branch(
    node: NodeView, graph: onnx.GraphProto, shape_of: Callable[[str], Sequence[int | None]] | None = None
) -> onnx.GraphProto | None:
    """The branch with the values that it reads as inputs and the types that ONNX's inference finds, whatever the branch says
    of them; None where inference fails. shape_of: the sizes to infer with of what it reads, None where they are not known.
    """
    branch = onnx.GraphProto()
    branch.CopyFrom(graph)
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


BRANCH_RANKS = NodeRule(
    "branch-ranks",
    "an If whose branches give one element in shapes of different ranks",
    ("If",),
    _rewrite,
)
