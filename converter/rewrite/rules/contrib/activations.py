"""Rewrites onnxruntime's elementwise fusions: GELU in all its forms; sums, Dropout and Softmax with a bias.

Their definitions are onnxruntime's documentation of the operators (docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.attention import halves
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import (
    fast_gelu,
    float_type,
    gelu,
)

Body = Callable[[Writer, str], tuple[Value, ...] | Value | Refusal]


def _bias_gelu(w: Writer, dtype: str) -> Value:
    return gelu(w, w.Add(w.x[0], w.x[1]), dtype)


def _fast_gelu(w: Writer, dtype: str) -> Value:
    data = w.Add(w.x[0], w.x[1]) if w.node.input(1) else w.x[0]
    return fast_gelu(w, data, dtype)


def _quick_gelu(w: Writer, dtype: str) -> Value:
    alpha = w.number(w.node.attributes.get("alpha", 1.702), dtype)
    return w.Mul(w.x[0], w.Sigmoid(w.Mul(w.x[0], alpha)))


def _bias_split_gelu(w: Writer, dtype: str) -> Value:
    """a * gelu(b), where a and b are the halves of x + bias along the last axis."""
    left, right = w.Split(w.Add(w.x[0], w.x[1]), outputs=2, axis=-1, **halves(w.node))
    return w.Mul(left, gelu(w, right, dtype))


def _bias_add(w: Writer, dtype: str) -> Value:
    return w.Add(w.Add(w.x[0], w.x[1]), w.x[2])


def _bias_softmax(w: Writer, dtype: str) -> Value:
    """Softmax over all dimensions from `axis` on; the bias broadcasts as in numpy."""
    axis, rank = w.node.attributes.get("axis", 1), w.node.rank(0)
    total = w.Add(w.x[0], w.x[1])
    if axis == -1 or (rank is not None and axis == rank - 1):
        return w.Softmax(total, axis=-1)
    return w.Reshape(w.Softmax(w.Flatten(total, axis=axis), axis=-1), w.Shape(total))


def _bias_dropout(w: Writer, dtype: str) -> tuple[Value, Value] | Refusal:
    """(data + bias) + residual, as in inference, where nothing is dropped."""
    node = w.node
    training = node.constant(4)
    if node.input(4) and (training is None or training.any()):
        return Refusal(
            "it drops values: training_mode is " + ("on" if training is not None else "not a constant"),
            "inference",
            "export the model in evaluation mode, or freeze training_mode to false",
        )
    total = w.Add(w.x[0], w.x[1])
    every = w.ConstantOfShape(w.Shape(total), value=numpy_helper.from_array(np.ones(1, bool)))
    return w.Add(total, w.x[2]) if node.input(2) else total, every


_BODIES: Mapping[str, tuple[Body, str]] = {
    "BiasAdd": (_bias_add, "two sums"),
    "BiasDropout": (_bias_dropout, "a sum: nothing is dropped in inference"),
    "BiasGelu": (_bias_gelu, "a sum and GELU"),
    "BiasSoftmax": (_bias_softmax, "a sum and Softmax"),
    "BiasSplitGelu": (_bias_split_gelu, "a sum, Split, GELU and a product"),
    "FastGelu": (_fast_gelu, "GELU by tanh"),
    "QuickGelu": (_quick_gelu, "a product with a Sigmoid"),
}


@node_rule("contrib-activations", *(f"com.microsoft::{name}" for name in _BODIES))
def contrib_activations_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's fused activations, sums and Softmax as the operators that were fused."""
    dtype = float_type(node)
    body, what = _BODIES[node.op_type]
    w = Writer(node)
    made = unrefused(body(w, dtype))
    results = made if isinstance(made, tuple) else (made,)
    return Replacement(w.finish(*results), f"{node.op_type} as {what}")
