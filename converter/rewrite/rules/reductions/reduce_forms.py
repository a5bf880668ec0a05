"""Rewrites reductions in forms that TensorRT does not import.

Writes the axes of reductions as constants where they are constant only once constants are folded.

Rewrites ReduceMax and ReduceMin of booleans (opset 20) as counts: TensorRT does not reduce booleans.

The largest of booleans is true where there are some; the smallest where none is false. So nothing at all has the
largest false and the smallest true, as ONNX says of empty sets.

Rewrites BatchNormalization in training mode, by the statistics of the batch, and that of opset 7 for each element.

Training mode is an attribute from opset 14 on. Before, a node has it that names more outputs than Y.

Gives a scalar a dimension where it is reduced: TensorRT-RTX 1.7.1 says "at least 1 dimensions are required". onnxruntime
lets ReduceMin and ReduceMax before opset 12 have axes all the same.

Computes Mean and InvStdDev, which TensorRT lacks, beside LayerNormalization, from the centred values. ONNX's function body
subtracts the squared mean from the mean of squares, which leaves their rounding where a row is constant: 283.3 for 316.2
in float32 (seen on an H200).
"""

from __future__ import annotations

from shlex import quote

from trtsmith.converter.graph.operator_groups import REDUCTIONS
from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.reductions.reduced_axes import reduced_axes


@node_rule("bool-reduce", "ReduceMax", "ReduceMin")
def bool_reduce_rule(node: NodeView) -> Replacement | Refusal | None:
    """ReduceMax and ReduceMin of booleans by counting."""
    if node.dtype(0) != "bool":
        return None
    w = Writer(node)
    largest = node.op_type == "ReduceMax"
    counted = w.Cast(w.x[0] if largest else w.Not(w.x[0]), to="int32")
    given = {name: node.attributes[name] for name in ("keepdims", "noop_with_empty_axes")}
    some = w.Greater(w.ReduceSum(counted, *w.x[1:], **given), w.number(0, "int32"))
    return Replacement(w.finish(some if largest else w.Not(some)), f"{node.op_type} of booleans by counting")


@node_rule("scalar-reduce", *REDUCTIONS)
def scalar_reduce_rule(node: NodeView) -> Replacement | None:
    """reductions of a scalar as those of a vector of one element."""
    if node.rank(0) != 0 or reduced_axes(node, None) == []:
        return None
    w = Writer(node)
    return Replacement(
        w.finish(w.reduce(node.op_type, w.Unsqueeze(w.x[0], axes=[0]), [0], keepdims=False)),
        "the scalar as a vector of one element",
    )


@node_rule("layer-statistics", "LayerNormalization")
def layer_statistics_rule(node: NodeView) -> Replacement | Refusal | None:
    """LayerNormalization whose Mean or InvStdDev is used computes them beside it."""
    if not (node.used(1) or node.used(2)):
        return None
    first, rank, work = int(node.attributes["axis"]), node.rank(0), int(node.attributes["stash_type"])
    if first >= 0 and rank is None:
        return Refusal(
            f"the rank of {node.input(0)!r} is unknown",
            "an input whose rank shape inference finds, or a negative axis",
            "run onnx.shape_inference on the model, or give the input's shape",
        )
    w = Writer(node)
    x = w.Cast(w.x[0], to=work)
    axes = list(range(first, 0 if rank is None or first < 0 else rank))
    mean = w.reduce("ReduceMean", x, axes)
    centred = w.Sub(x, mean)
    variance = w.reduce("ReduceMean", w.Mul(centred, centred), axes)
    epsilon = w.Cast(w.constant(float(node.attributes["epsilon"])), to=work)
    inverse = w.Reciprocal(w.Sqrt(w.Add(variance, epsilon)))
    normal = w.LayerNormalization(*w.x, **node.own("axis", "epsilon", "stash_type"))
    return Replacement(w.finish(normal, mean, inverse), "the statistics from the centred values, beside it")


@node_rule("batch-statistics", "BatchNormalization")
def batch_statistics_rule(node: NodeView) -> Replacement | Refusal | None:
    """BatchNormalization in training mode, or for each element, is written out."""
    elementwise = node.version < 9 and node.attributes.get("spatial", 1) == 0
    training = bool(node.attributes.get("training_mode"))
    if node.version < 14:
        training = len([name for name in node.outputs if name]) > 1
    if node.version < 7 or not (elementwise or training):
        return None
    rank, dtype = node.rank(0), node.dtype(0)
    if rank is None or dtype is None:
        return Refusal(
            f"the type or rank of {node.input(0)!r} is unknown",
            "an input whose type and rank shape inference finds",
            "run onnx.shape_inference on the model, or give the input's shape",
        )
    if elementwise and training:
        return Refusal(
            "training mode with spatial = 0", "spatial = 1", "export the model with opset 9 or later"
        )
    w = Writer(node)
    work = "float32" if dtype in ("float16", "bfloat16") else dtype
    x, scale, shift, mean, variance = (_as(w, node, i, work) for i in range(5))
    epsilon = w.number(float(node.attributes["epsilon"]), work)
    if elementwise:
        parts = [w.Unsqueeze(name, axes=[0]) for name in (scale, shift, mean, variance)]
        nodes = w.finish(_typed(w, _normalised(w, x, parts, epsilon), dtype, work))
        return Replacement(nodes, "BatchNormalization element by element")
    axes = [axis for axis in range(rank) if axis != 1]
    batch_mean = w.reduce("ReduceMean", x, axes)
    centred = w.Sub(x, batch_mean)
    batch_variance = w.reduce("ReduceMean", w.Mul(centred, centred), axes)
    column = [-1 if axis == 1 else 1 for axis in range(rank)]
    parts = [w.Reshape(name, shape=column) for name in (scale, shift)]
    normal = _normalised(w, x, [*parts, batch_mean, batch_variance], epsilon)
    mixtures, lines = [], []
    momentum = float(node.attributes.get("momentum", 0.9))
    old, new = w.number(momentum, work), w.number(1 - momentum, work)
    for index, (running, found) in enumerate(((mean, batch_mean), (variance, batch_variance)), 1):
        line = w.Reshape(found, shape=[-1])
        mixed = w.Add(w.Mul(running, old), w.Mul(line, new))
        mixtures.append(_typed(w, mixed, node.dtype(index + 2) or dtype, work))
        lines.append(_typed(w, line, node.dtype(index + 2) or dtype, work))
    return Replacement(
        w.finish(_typed(w, normal, dtype, work), *mixtures, *lines),
        "BatchNormalization by the statistics of the batch",
    )


def _as(w: Writer, node: NodeView, index: int, work: str) -> Value:
    """An input in the type that is computed in."""
    return w.x[index] if node.dtype(index) == work else w.Cast(w.x[index], to=work)


def _typed(w: Writer, value: Value, dtype: str, work: str) -> Value:
    return value if dtype == work else w.Cast(value, to=dtype)


def _normalised(w: Writer, x: Value, parts: list[Value], epsilon: Value) -> Value:
    scale, shift, mean, variance = parts
    normal = w.Div(w.Sub(x, mean), w.Sqrt(w.Add(variance, epsilon)))
    return w.Add(w.Mul(normal, scale), shift)


_SEEN_THROUGH = frozenset({"Identity", "Cast"})
"""Operators that TensorRT-RTX 1.7.1 computes itself on the way to the axes of a reduction. It does so for no other, and
takes empty axes as ONNX means them. For Squeeze and Unsqueeze it computes all, from fixed shapes too."""

_ATTRIBUTES = ("keepdims", "noop_with_empty_axes")


@node_rule("axes", *REDUCTIONS, "Squeeze", "Unsqueeze")
def axes_rule(node: NodeView) -> Replacement | Refusal | None:
    """reductions get the axes that the graph computes as constants."""
    if not node.input(1):
        return None
    axes = node.constant(1)
    if axes is not None and node.op_type in REDUCTIONS and node.folded(1, beyond=_SEEN_THROUGH):
        w = Writer(node)
        nodes = w.finish(w.write(node.op_type, w.x[0], axes, **node.own(*_ATTRIBUTES)))
        return Replacement(nodes, "the axes that the graph computes, as a constant")
    if axes is not None:
        return None
    maker = node.producer(1)
    if maker is not None and node.op_type not in REDUCTIONS:
        return None  # TensorRT may know more of shapes than ONNX's inference
    how = "fed" if maker is None else f"computed by {maker.op_type}"
    return Refusal(
        f"the axes ({node.input(1)!r}) are {how} at run time",
        "constant axes",
        f"freeze what they come from: --freeze {quote(node.input(1))}=VALUES",
    )
