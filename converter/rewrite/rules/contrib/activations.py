"""onnxruntime's elementwise fusions: GELU in all its forms, with its bias; sums, Dropout and Softmax with theirs.

Their definitions are onnxruntime's documentation of the operators (docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    fast_gelu,
    float_type,
    gelu,
    number,
    unknown_type,
)

Body = Callable[[NodeView, str], str | Refusal]


def _bias_gelu(node: NodeView, dtype: str) -> str:
    return "sum = Add (x0, x1)\n" + gelu("y0", "sum", dtype, node.opset)


def _fast_gelu(node: NodeView, dtype: str) -> str:
    first = "sum = Add (x0, x1)" if node.input(1) else "sum = Identity (x0)"
    return f"{first}\n{fast_gelu('y0', 'sum', dtype, node.opset)}"


def _quick_gelu(node: NodeView, dtype: str) -> str:
    alpha = node.attributes.get("alpha", 1.702)
    return f"""
        {number("alpha", alpha, dtype)}
        scaled = Mul (x0, alpha)
        gate = Sigmoid (scaled)
        y0 = Mul (x0, gate)
    """


def _bias_split_gelu(node: NodeView, dtype: str) -> str:
    """(a, b) = halves of x + bias in the last axis; a * gelu(b)."""
    halves = "<axis = -1, num_outputs = 2>" if node.opset >= 18 else "<axis = -1>"
    return f"""
        sum = Add (x0, x1)
        left, right = Split {halves} (sum)
        {gelu("gate", "right", dtype, node.opset)}
        y0 = Mul (left, gate)
    """


def _bias_add(node: NodeView, dtype: str) -> str:
    return "sum = Add (x0, x1)\ny0 = Add (sum, x2)"


def _bias_softmax(node: NodeView, dtype: str) -> str:
    """Softmax over all dimensions from `axis` on, as one; the bias broadcasts as numpy's does."""
    axis = node.attributes.get("axis", 1)
    rank = node.rank(0)
    if axis == -1 or (rank is not None and axis == rank - 1):
        return "sum = Add (x0, x1)\ny0 = Softmax <axis = -1> (sum)"
    return f"""
        sum = Add (x0, x1)
        shape = Shape (sum)
        rows = Flatten <axis = {axis}> (sum)
        soft = Softmax <axis = -1> (rows)
        y0 = Reshape (soft, shape)
    """


def _bias_dropout(node: NodeView, dtype: str) -> str | Refusal:
    """Nothing is dropped but in training: (data + bias) + residual."""
    training = node.constant(4)
    if node.input(4) and (training is None or training.any()):
        return Refusal(
            "it drops values: training_mode is " + ("on" if training is not None else "not a constant"),
            "inference",
            "export the model in evaluation mode, or freeze training_mode to false",
        )
    lines = ["sum = Add (x0, x1)", "y0 = Add (sum, x2)" if node.input(2) else "y0 = Identity (sum)"]
    if node.used(1):
        lines += ["shape = Shape (sum)", "y1 = ConstantOfShape <value = bool[1] {1}> (shape)"]
    return "\n".join(lines)


_BODIES: Mapping[str, tuple[Body, str]] = {
    "BiasAdd": (_bias_add, "two sums"),
    "BiasDropout": (_bias_dropout, "a sum: nothing is dropped in inference"),
    "BiasGelu": (_bias_gelu, "a sum and GELU"),
    "BiasSoftmax": (_bias_softmax, "a sum and Softmax"),
    "BiasSplitGelu": (_bias_split_gelu, "a sum, Split, GELU and a product"),
    "FastGelu": (_fast_gelu, "GELU by tanh"),
    "QuickGelu": (_quick_gelu, "a product with a Sigmoid"),
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    body, what = _BODIES[node.op_type]
    text = body(node, dtype)
    return (
        text if isinstance(text, Refusal) else Replacement(node.statements(text), f"{node.op_type} as {what}")
    )


CONTRIB_ACTIVATIONS = NodeRule(
    "contrib-activations",
    "onnxruntime's fused activations, sums and Softmax become the operators that they were made of",
    tuple(f"com.microsoft::{name}" for name in _BODIES),
    _rewrite,
)
