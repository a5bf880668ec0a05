"""Writes an LSTM with dequantized weights for one that quantizes its input and state as it runs: --float-lstm."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.recurrent.quantized_gates import QuantizedWeights

_ATTRIBUTES = (
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "input_forget",
)

_NUMERICS = "--float-lstm: its input and state are not rounded to 8 bits at each step, as onnxruntime does; its weights are"


def in_float(node: NodeView, inputs: QuantizedWeights, states: QuantizedWeights) -> Replacement:
    """An LSTM, which TensorRT runs as one layer."""
    w = Writer(node)
    end = max((index + 1 for index in range(3, 8) if node.input(index)), default=3)
    results = w.LSTM(
        w.x[0],
        _dequantized(inputs),
        _dequantized(states),
        *w.x[3:end],
        outputs=[bool(name) for name in node.outputs],
        **node.own(*_ATTRIBUTES),
    )
    return Replacement(w.finish(*results), "an LSTM with dequantized weights", numerics=_NUMERICS)


def _dequantized(weights: QuantizedWeights) -> np.ndarray:
    """[directions, columns, length] in float32."""
    return np.ascontiguousarray((weights.steps.astype(np.float32) * weights.scale).transpose(0, 2, 1))
