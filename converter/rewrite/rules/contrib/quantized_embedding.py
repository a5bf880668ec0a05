"""onnxruntime's QEmbedLayerNormalization: EmbedLayerNormalization of dequantised tables.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization. Another
rule takes EmbedLayerNormalization.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import Example, NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer

_TABLES = {2: (8, 13), 3: (9, 14), 4: (10, 15), 5: (11, 16), 6: (12, 17)}
"""Quantised tables, their scales and zero points: words, positions, segments, gamma, beta."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    w = Writer(node)
    inputs = ["x0", "x1" if node.input(1) else ""]
    for data, (scale, zero) in _TABLES.items():
        parts = [f"x{data}", f"x{scale}", *([f"x{zero}"] if node.input(zero) else [])]
        inputs.append(w.do("DequantizeLinear", *parts) if node.input(data) else "")
    inputs += ["x7"] if node.input(7) else []
    epsilon = float(node.attributes.get("epsilon", 1e-12))
    results = ["y0", "y1"] if node.output(1) else ["y0"]
    w.many("com.microsoft::EmbedLayerNormalization", inputs, results, epsilon=epsilon)
    return Replacement(w.nodes(), "tables dequantised, then EmbedLayerNormalization")


_RNG = np.random.default_rng(6)


def _listed(*shape: int) -> str:
    return ", ".join(str(value) for value in _RNG.integers(0, 256, shape).reshape(-1))


_EXAMPLES = (
    Example(
        "with segments and a mask",
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (int32[2, 3] ids, int32[2, 3] kinds, int32[2, 3] mask) => (float[2, 3, 4] y, int32[2] index)
        <uint8[6, 4] w = {{{_listed(6, 4)}}}, uint8[5, 4] p = {{{_listed(5, 4)}}}, uint8[2, 4] s = {{{_listed(2, 4)}}},
         uint8[4] g0 = {{{_listed(4)}}}, uint8[4] b = {{{_listed(4)}}},
         float a = {{0.02}}, uint8 z = {{117}}, uint8 zero = {{0}}> {{
            y, index = com.microsoft.QEmbedLayerNormalization
                (ids, kinds, w, p, s, g0, b, mask, a, a, a, a, a, z, z, zero, z, z)
        }}""",
        feeds={
            "ids": np.array([[3, 0, 5], [1, 1, 4]], np.int32),
            "kinds": np.array([[0, 1, 1], [0, 0, 1]], np.int32),
            "mask": np.array([[1, 1, 0], [1, 1, 1]], np.int32),
        },
        rtol=1e-4,
        atol=1e-5,
    ),
)

QEMBEDDING = NodeRule(
    "qembed-layer-normalization",
    "QEmbedLayerNormalization becomes DequantizeLinear and EmbedLayerNormalization",
    ("com.microsoft::QEmbedLayerNormalization",),
    _rewrite,
    _EXAMPLES,
)
