"""Splits onnxruntime's fused convolutions: a sum and an activation after them, or channels last."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    ADVICE,
    activation,
    float_type,
    unknown,
    unknown_type,
)

_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    last = node.op_type != "FusedConv"
    rank = node.rank(0) or node.rank(1)
    if last and rank is None:
        return unknown(node, 0, "the rank")
    fault = _other_layout(node) if last else None
    if fault is not None:
        return fault
    inward = [0, (rank or 2) - 1, *range(1, (rank or 2) - 1)]
    outward = [0, *range(2, rank or 2), 1]
    w = Writer(node)
    data = w.Transpose(w.x[0], perm=inward) if last else w.x[0]
    conv = w.Conv(data, w.x[1], *([w.x[2]] if node.input(2) else []), **node.own(*_ATTRIBUTES))
    first = w.Transpose(conv, perm=outward) if last else conv
    total = w.Add(first, w.x[3]) if node.input(3) else first
    name = node.attributes.get("activation", "")
    active = activation(w, total, name, node.attributes.get("activation_params", []), dtype)
    if active is None:
        return Refusal(
            f"the activation {name!r} is unknown",
            "an activation of ONNX that onnxruntime fuses, as Relu or Clip",
            "save the model at a lower graph_optimization_level",
        )
    return Replacement(w.finish(active), f"{node.op_type} as Conv, with what was fused into it apart")


def _other_layout(node: NodeView) -> Refusal | None:
    """A channels-last convolution whose weights are not laid out as ONNX's, as some providers save them."""
    kernel, weights = node.attributes.get("kernel_shape"), node.shape(1)
    if not kernel or weights is None or list(weights[2:]) == list(kernel):
        return None
    return Refusal(
        f"the weights have shape {list(weights)}, which does not end with kernel_shape {list(kernel)}",
        "weights laid out as those of ONNX's Conv",
        ADVICE,
    )


CONTRIB_CONV = NodeRule(
    "contrib-conv",
    "onnxruntime's fused convolutions become Conv and what was fused into it",
    tuple(f"com.microsoft::{name}" for name in ("FusedConv", "NhwcConv", "NhwcFusedConv")),
    _rewrite,
)
