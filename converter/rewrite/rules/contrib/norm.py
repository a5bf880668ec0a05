"""Rewrites onnxruntime's fused normalisations: with a skip connection, without a mean, in groups of channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    float_type,
    layer_norm,
    silu,
    unknown,
    unknown_type,
)


def _statistics(node: NodeView) -> Refusal | None:
    """Mean and inverse deviation, which onnxruntime makes for training and its CPU provider not at all."""
    for index, name in ((1, "mean"), (2, "inv_std_var")):
        if node.used(index):
            return Refusal(
                f"its output {name!r} is used",
                "outputs of inference: output and input_skip_bias_sum",
                "export the model in evaluation mode",
            )
    return None


def _sum(w: Writer, first: str, second: str, more: str) -> str:
    """first + second + more, if there is more."""
    pair = w.do("Add", first, second)
    return w.do("Add", pair, more) if more else w.do("Identity", pair)


def _skip_layer(w: Writer, dtype: str) -> Refusal | None:
    total = _sum(w, "x0", "x1", "x4" if w.node.input(4) else "")
    if w.node.used(3):
        w.do("Identity", total, result="y3")
    layer_norm(w, total, "x2", "x3" if w.node.input(3) else "", dtype, "y0")
    return _statistics(w.node)


def _simplified(w: Writer, dtype: str) -> Refusal | None:
    """x / sqrt(mean(x^2) + epsilon) * scale, Zhang and Sennrich, arXiv 1910.07467."""
    node = w.node
    axis, rank = node.attributes.get("axis", -1), node.rank(0)
    if axis != -1 and rank is None:
        return unknown(node, 0, "the rank")
    axes = [-1] if axis == -1 or rank is None else list(range(axis % rank, rank))
    wide = w.cast("x0", "float32")
    mean = w.reduce("ReduceMean", w.do("Mul", wide, wide), axes)
    total = w.do("Add", mean, w.number(node.attributes.get("epsilon", 1e-5), "float32"))
    unit = w.do("Mul", wide, w.do("Reciprocal", w.do("Sqrt", total), result="y1"))
    w.do("Mul", w.cast(unit, node.dtype(1) or dtype), "x1", result="y0")
    return None


def _group(w: Writer, dtype: str, data: str = "x0") -> None:
    """GroupNorm of images, Wu and He, arXiv 1803.08494, computed in float32; channels last by default."""
    groups, epsilon = w.node.attributes["groups"], w.node.attributes.get("epsilon", 1e-5)
    last = w.node.attributes.get("channels_last", 1)
    wide = w.cast(w.transpose(data, [0, 3, 1, 2]) if last else w.do("Identity", data), "float32")
    ones, zeros = (w.const(np.full(groups, value, np.float32)) for value in (1, 0))
    unit = w.do("InstanceNormalization", w.reshape(wide, [0, groups, -1]), ones, zeros, epsilon=epsilon)
    normal = w.do("Reshape", unit, w.do("Shape", wide))
    gamma, beta = (w.reshape(w.cast(name, "float32"), [-1, 1, 1]) for name in ("x1", "x2"))
    shifted = w.do("Add", w.do("Mul", normal, gamma), beta)
    active = silu(w, shifted) if w.node.attributes.get("activation") else w.do("Identity", shifted)
    narrow = w.cast(active, dtype)
    _ = w.transpose(narrow, [0, 2, 3, 1], "y0") if last else w.do("Identity", narrow, result="y0")


def _skip_group(w: Writer, dtype: str) -> Refusal | None:
    node = w.node
    rank = node.rank(3)
    if rank is None:
        return unknown(node, 3, "the rank")
    row = [1, 1, -1] if node.attributes.get("channels_last", 1) else [-1, 1, 1]
    skip = w.reshape("x3", [0, *row]) if rank == 2 else w.do("Identity", "x3")
    total = _sum(w, "x0", skip, w.reshape("x4", [1, *row]) if node.input(4) else "")
    if node.used(1):
        w.do("Identity", total, result="y1")
    _group(w, dtype, total)
    return None


_BODIES: Mapping[str, Callable[[Writer, str], Refusal | None]] = {
    "com.microsoft::SkipLayerNormalization": _skip_layer,
    "com.microsoft::GroupNorm": _group,
    "com.microsoft::SkipGroupNorm": _skip_group,
    "SimplifiedLayerNormalization": _simplified,
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    dtype = node.dtype(0) or float_type(node)
    if dtype is None:
        return unknown_type(node)
    if (
        kind == "com.microsoft::SkipSimplifiedLayerNormalization"
    ):  # TensorRT imports it but for outputs of training
        return _statistics(node)
    if kind == "SimplifiedLayerNormalization" and not node.used(1):  # TensorRT imports it, one output only
        return None
    w = Writer(node)
    refusal = _BODIES[kind](w, dtype)
    return refusal or Replacement(w.nodes(), f"{node.op_type} by its definition")


CONTRIB_NORM = NodeRule(
    "contrib-norm",
    "onnxruntime's fused normalisations become those of ONNX",
    tuple(_BODIES),
    _rewrite,
)
