"""Rewrites onnxruntime's fused normalisations: with a skip connection, without a mean, in groups of channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    float_type,
    layer_norm,
    silu,
)


def _statistics(node: NodeView) -> Refusal | None:
    """Refuses used outputs for mean and inverse deviation, which exist for training only."""
    for index, name in ((1, "mean"), (2, "inv_std_var")):
        if node.used(index):
            return Refusal(
                f"its output {name!r} is used",
                "outputs of inference: output and input_skip_bias_sum",
                "export the model in evaluation mode",
            )
    return None


Made = tuple[Value | None, ...]
"""Outputs of a node."""


def _sum(w: Writer, first: Value, second: Value, more: Value | None) -> Value:
    """The sum of two or three operands."""
    pair = w.Add(first, second)
    return pair if more is None else w.Add(pair, more)


def _skip_layer(w: Writer, dtype: str) -> Made | Refusal:
    node = w.node
    total = _sum(w, w.x[0], w.x[1], w.x[4] if node.input(4) else None)
    normal = layer_norm(w, total, w.x[2], w.x[3] if node.input(3) else None, dtype)
    return _statistics(node) or (normal, None, None, total)


def _simplified(w: Writer, dtype: str) -> Made | Refusal:
    """RMS normalisation, x / sqrt(mean(x^2) + epsilon) * scale; Zhang and Sennrich, arXiv 1910.07467."""
    node = w.node
    axis = node.attributes.get("axis", -1)
    axes = [-1] if axis == -1 else list(range(axis % node.known_rank(0), node.known_rank(0)))
    wide = w.Cast(w.x[0], to="float32")
    mean = w.reduce("ReduceMean", w.Mul(wide, wide), axes)
    total = w.Add(mean, node.attributes.get("epsilon", 1e-5))
    deviation = w.Reciprocal(w.Sqrt(total))
    return w.Mul(w.Cast(w.Mul(wide, deviation), to=node.dtype(1) or dtype), w.x[1]), deviation


def _group(w: Writer, dtype: str, total: Value | None = None) -> Made:
    """GroupNorm (Wu and He, arXiv 1803.08494) in float32; images are channels last by default."""
    data = w.x[0] if total is None else total
    groups, epsilon = w.node.attributes["groups"], w.node.attributes.get("epsilon", 1e-5)
    last = w.node.attributes.get("channels_last", 1)
    wide = w.Cast(w.Transpose(data, perm=[0, 3, 1, 2]) if last else data, to="float32")
    w.expect(f"{groups:,} groups", nbytes=8 * groups)
    ones, zeros = (w.constant(np.full(groups, value, np.float32)) for value in (1, 0))
    unit = w.InstanceNormalization(w.Reshape(wide, shape=[0, groups, -1]), ones, zeros, epsilon=epsilon)
    normal = w.Reshape(unit, w.Shape(wide))
    gamma, beta = (w.Reshape(w.Cast(name, to="float32"), shape=[-1, 1, 1]) for name in (w.x[1], w.x[2]))
    shifted = w.Add(w.Mul(normal, gamma), beta)
    active = silu(w, shifted) if w.node.attributes.get("activation") else shifted
    narrow = w.Cast(active, to=dtype)
    return w.Transpose(narrow, perm=[0, 2, 3, 1]) if last else narrow, total


def _skip_group(w: Writer, dtype: str) -> Made | Refusal:
    node = w.node
    row = [1, 1, -1] if node.attributes.get("channels_last", 1) else [-1, 1, 1]
    skip = w.Reshape(w.x[3], shape=[0, *row]) if node.known_rank(3) == 2 else w.x[3]
    total = _sum(w, w.x[0], skip, w.Reshape(w.x[4], shape=[1, *row]) if node.input(4) else None)
    return _group(w, dtype, total)


_BODIES: Mapping[str, Callable[[Writer, str], Made | Refusal]] = {
    "com.microsoft::SkipLayerNormalization": _skip_layer,
    "com.microsoft::GroupNorm": _group,
    "com.microsoft::SkipGroupNorm": _skip_group,
    "SimplifiedLayerNormalization": _simplified,
}


@node_rule("contrib-norm", *_BODIES)
def contrib_norm_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's fused normalisations as standard ones."""
    kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    dtype = node.dtype(0) or float_type(node)
    # TensorRT imports it but for outputs of training.
    if kind == "com.microsoft::SkipSimplifiedLayerNormalization":
        return _statistics(node)
    if kind == "SimplifiedLayerNormalization" and not node.used(1):  # TensorRT imports it, one output only
        return None
    w = Writer(node)
    made = unrefused(_BODIES[kind](w, dtype))
    return Replacement(w.finish(*made), f"{node.op_type} by its definition")
