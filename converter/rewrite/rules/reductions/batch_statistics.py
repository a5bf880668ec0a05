"""Rewrites BatchNormalization in training mode, with the batch's statistics, and the elementwise form of opset 7.

Training mode is an attribute from opset 14 on. Before, a node has it that names more outputs than Y.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer


@node_rule("batch-statistics", "BatchNormalization")
def batch_statistics_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites BatchNormalization in training mode, or with parameters for each element."""
    elementwise = node.version < 9 and node.attributes.get("spatial", 1) == 0
    training = bool(node.attributes.get("training_mode"))
    if node.version < 14:
        training = len([name for name in node.outputs if name]) > 1
    if node.version < 7 or not (elementwise or training):
        return None
    rank, dtype = node.known_rank(0), node.known_dtype(0)
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
    """An input in the type of the computation."""
    return w.x[index] if node.dtype(index) == work else w.Cast(w.x[index], to=work)


def _typed(w: Writer, value: Value, dtype: str, work: str) -> Value:
    return value if dtype == work else w.Cast(value, to=dtype)


def _normalised(w: Writer, x: Value, parts: list[Value], epsilon: Value) -> Value:
    scale, shift, mean, variance = parts
    normal = w.Div(w.Sub(x, mean), w.Sqrt(w.Add(variance, epsilon)))
    return w.Add(w.Mul(normal, scale), shift)
