"""Computes LayerNormalization's Mean and InvStdDev from the centred values, as TensorRT lacks these outputs.

ONNX's function body subtracts the squared mean from the mean of squares, which leaves their rounding where a row is
constant: 283.3 for 316.2 in float32 (seen on an H200).
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Writer


@node_rule("layer-statistics", "LayerNormalization")
def layer_statistics_rule(node: NodeView) -> Replacement | Refusal | None:
    """Computes the outputs Mean and InvStdDev beside LayerNormalization where they are used."""
    if not (node.used(1) or node.used(2)):
        return None
    first, work = int(node.attributes["axis"]), int(node.attributes["stash_type"])
    w = Writer(node)
    x = w.Cast(w.x[0], to=work)
    axes = list(range(first, 0 if first < 0 else node.known_rank(0)))
    mean = w.reduce("ReduceMean", x, axes)
    centred = w.Sub(x, mean)
    variance = w.reduce("ReduceMean", w.Mul(centred, centred), axes)
    epsilon = w.Cast(w.constant(float(node.attributes["epsilon"])), to=work)
    inverse = w.Reciprocal(w.Sqrt(w.Add(variance, epsilon)))
    normal = w.LayerNormalization(*w.x, **node.own("axis", "epsilon", "stash_type"))
    return Replacement(w.finish(normal, mean, inverse), "the statistics from the centred values, beside it")
