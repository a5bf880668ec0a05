"""Rewrites onnxruntime's DynamicQuantizeLSTM as an LSTM with dequantized weights.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM: weights are
[directions, input, 4 * hidden], the other way round than LSTM's. It rounds the input of each step to 8 bits before it
multiplies; this does not, so that results are nearer to those of the model before it was quantized.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer

_ATTRIBUTES = (
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "input_forget",
)

_NUMERICS = (
    "its input and state are not rounded to 8 bits at each step, as onnxruntime does; only its weights were"
)


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    weights = _dequantized(node, 1, 8, 9), _dequantized(node, 2, 10, 11)
    if weights[0] is None or weights[1] is None:
        return Refusal(
            "its weights, scales or zero points are computed at run time",
            "constant weights, scales and zero points",
            "make them initializers of the model",
        )
    w = Writer(node)
    inputs = ["x0", w.const(weights[0]), w.const(weights[1])]
    inputs += [f"x{i}" if node.input(i) else "" for i in range(3, 8)]
    while not inputs[-1]:
        inputs.pop()
    results = [f"y{i}" if name else "" for i, name in enumerate(node.outputs)]
    w.many("LSTM", inputs, results, **node.own(*_ATTRIBUTES))
    return Replacement(w.nodes(), "an LSTM with dequantized weights", numerics=_NUMERICS)


def _dequantized(node: NodeView, data: int, scale: int, zero: int) -> np.ndarray | None:
    """[directions, 4 * hidden, input] in float32."""
    array, scales, zeros = node.constant(data), node.constant(scale), node.constant(zero)
    if array is None or scales is None or zeros is None:
        return None
    shape = (array.shape[0], 1, -1)  # one for each direction, or for each column too
    steps = array.astype(np.float32) - zeros.astype(np.float32).reshape(shape)
    return np.ascontiguousarray((steps * scales.reshape(shape)).transpose(0, 2, 1))


DYNAMIC_QUANTIZE_LSTM = NodeRule(
    "dynamic-quantize-lstm",
    "DynamicQuantizeLSTM becomes LSTM with dequantized weights",
    ("com.microsoft::DynamicQuantizeLSTM",),
    _rewrite,
)
