"""onnxruntime's DynamicQuantizeLSTM: an LSTM with dequantised weights.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM: weights are
[directions, input, 4 * hidden], the other way round than LSTM's. It rounds the input of each step to 8 bits before it
multiplies; this does not, so that results are nearer to those of the model before it was quantised.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
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
    weights = _dequantised(node, 1, 8, 9), _dequantised(node, 2, 10, 11)
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
    return Replacement(w.nodes(), "an LSTM with dequantised weights", numerics=_NUMERICS)


def _dequantised(node: NodeView, data: int, scale: int, zero: int) -> np.ndarray | None:
    """[directions, 4 * hidden, input] in float32."""
    array, scales, zeros = node.constant(data), node.constant(scale), node.constant(zero)
    if array is None or scales is None or zeros is None:
        return None
    shape = (array.shape[0], 1, -1)  # one for each direction, or for each column too
    steps = array.astype(np.float32) - zeros.astype(np.float32).reshape(shape)
    return np.ascontiguousarray((steps * scales.reshape(shape)).transpose(0, 2, 1))


_RNG = np.random.default_rng(4)


def _listed(*shape: int) -> str:
    return ", ".join(str(value) for value in _RNG.integers(-100, 101, shape).reshape(-1))


_EXAMPLES = (
    Example(
        "two directions",
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[5, 2, 3] x) => (float[5, 2, 2, 4] y, float[2, 2, 4] h)
        <int8[2, 3, 16] w = {{{_listed(2, 3, 16)}}}, int8[2, 4, 16] r = {{{_listed(2, 4, 16)}}},
         float[2] sw = {{0.01, 0.005}}, int8[2] zw = {{3, -5}}, float[2] sr = {{0.004, 0.006}}, int8[2] zr = {{0, 9}}> {{
            y, h = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4, direction = "bidirectional"> (
                x, w, r, , , , , , sw, zw, sr, zr)
        }}""",
        rtol=0.02,
        atol=0.02,
    ),
)

DYNAMIC_QUANTIZE_LSTM = NodeRule(
    "dynamic-quantize-lstm",
    "DynamicQuantizeLSTM becomes LSTM with dequantised weights",
    ("com.microsoft::DynamicQuantizeLSTM",),
    _rewrite,
    _EXAMPLES,
)
