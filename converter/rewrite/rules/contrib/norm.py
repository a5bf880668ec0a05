"""onnxruntime's fused normalisations: with a skip connection, without a mean, in groups of channels, of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import reduce
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    cast,
    float_type,
    layer_norm,
    number,
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


def _skip_sum(node: NodeView, bias: int) -> str:
    """`total`: input + skip + bias, which is the fourth output too."""
    added = f"total = Add (pair, x{bias})" if node.input(bias) else "total = Identity (pair)"
    last = "y3 = Identity (total)" if node.used(3) else ""
    return f"pair = Add (x0, x1)\n{added}\n{last}"


def _skip_layer(node: NodeView, dtype: str) -> str | Refusal | None:
    shift = "x3" if node.input(3) else ""
    norm = layer_norm("y0", "total", "x2", shift, node.attributes.get("epsilon", 1e-12), dtype, node.opset)
    return _statistics(node) or f"{_skip_sum(node, 4)}\n{norm}"


def _skip_simplified(node: NodeView, dtype: str) -> str | Refusal | None:
    """TensorRT imports it but for the outputs of training."""
    return _statistics(node)


def _simplified(node: NodeView, dtype: str) -> str | Refusal | None:
    """x / sqrt(mean(x^2) + epsilon) * scale, Zhang and Sennrich, arXiv 1910.07467. TensorRT imports it, one output only."""
    if not node.used(1):
        return None
    axis, rank = node.attributes.get("axis", -1), node.rank(0)
    if axis != -1 and rank is None:
        return unknown(node, 0, "the rank")
    axes = [-1] if axis == -1 or rank is None else list(range(axis % rank, rank))
    result = node.dtype(1) or dtype
    return f"""
        {cast("wide", "x0", "float32")}
        square = Mul (wide, wide)
        {reduce("ReduceMean", "mean", "square", axes, node.opset)}
        {number("epsilon", node.attributes.get("epsilon", 1e-5), "float32")}
        sum = Add (mean, epsilon)
        deviation = Sqrt (sum)
        y1 = Reciprocal (deviation)
        unit = Mul (wide, y1)
        {cast("normal", "unit", result)}
        y0 = Mul (normal, x1)
    """


def _group(node: NodeView, dtype: str, data: str = "x0") -> str | Refusal | None:
    """GroupNorm of images, Wu and He, arXiv 1803.08494, computed in float32; channels last by default."""
    groups = node.attributes["groups"]
    last = node.attributes.get("channels_last", 1)
    epsilon = node.attributes.get("epsilon", 1e-5)
    end = silu("active", "shifted") if node.attributes.get("activation") else "active = Identity (shifted)"
    return f"""
        first = {"Transpose <perm = [0, 3, 1, 2]>" if last else "Identity"} ({data})
        {cast("wide", "first", "float32")}
        shape = Shape (wide)
        rows_shape = Constant <value = int64[3] {{0, {groups}, -1}}> ()
        rows = Reshape (wide, rows_shape)
        size = Constant <value = int64[1] {{{groups}}}> ()
        ones = ConstantOfShape <value = float[1] {{1.0}}> (size)
        zeros = ConstantOfShape <value = float[1] {{0.0}}> (size)
        unit = InstanceNormalization <epsilon = {epsilon!r}> (rows, ones, zeros)
        normal = Reshape (unit, shape)
        column = Constant <value = int64[3] {{-1, 1, 1}}> ()
        {cast("gamma", "x1", "float32")}
        {cast("beta", "x2", "float32")}
        scale = Reshape (gamma, column)
        shift = Reshape (beta, column)
        scaled = Mul (normal, scale)
        shifted = Add (scaled, shift)
        {end}
        {cast("narrow", "active", dtype)}
        y0 = {"Transpose <perm = [0, 2, 3, 1]>" if last else "Identity"} (narrow)
    """


def _skip_group(node: NodeView, dtype: str) -> str | Refusal | None:
    last, rank = node.attributes.get("channels_last", 1), node.rank(3)
    if rank is None:
        return unknown(node, 3, "the rank")
    row = "{0, 1, 1, -1}" if last else "{0, -1, 1, 1}"
    lines = [f"row = Constant <value = int64[4] {row}> ()"] if rank == 2 or node.input(4) else []
    lines.append("skip = Reshape (x3, row)" if rank == 2 else "skip = Identity (x3)")
    lines.append("pair = Add (x0, skip)")
    if node.input(4):
        lines.append(f"row_of_one = Constant <value = int64[4] {row.replace('0', '1')}> ()")
        lines += ["bias = Reshape (x4, row_of_one)", "total = Add (pair, bias)"]
    else:
        lines.append("total = Identity (pair)")
    lines.append("y1 = Identity (total)" if node.used(1) else "")
    return "\n".join([*lines, str(_group(node, dtype, "total"))])


_BODIES: Mapping[str, Callable[[NodeView, str], str | Refusal | None]] = {
    "com.microsoft::SkipLayerNormalization": _skip_layer,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_simplified,
    "com.microsoft::GroupNorm": _group,
    "com.microsoft::SkipGroupNorm": _skip_group,
    "SimplifiedLayerNormalization": _simplified,
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    dtype = node.dtype(0) or float_type(node)
    if dtype is None:
        return unknown_type(node)
    body = _BODIES[kind](node, dtype)
    if body is None or isinstance(body, Refusal):
        return body
    return Replacement(node.statements(body), f"{node.op_type} by its definition")


CONTRIB_NORM = NodeRule(
    "contrib-norm",
    "onnxruntime's fused normalisations become those of ONNX",
    tuple(_BODIES),
    _rewrite,
)
