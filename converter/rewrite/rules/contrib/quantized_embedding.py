"""Rewrites onnxruntime's QEmbedLayerNormalization as EmbedLayerNormalization of dequantized tables.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization. Another
rule takes EmbedLayerNormalization.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer

_TABLES = {2: (8, 13), 3: (9, 14), 4: (10, 15), 5: (11, 16), 6: (12, 17)}
"""Quantized tables, their scales and zero points: words, positions, segments, gamma, beta."""


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
    return Replacement(w.nodes(), "tables dequantized, then EmbedLayerNormalization")


QEMBEDDING = NodeRule(
    "qembed-layer-normalization",
    "QEmbedLayerNormalization becomes DequantizeLinear and EmbedLayerNormalization",
    ("com.microsoft::QEmbedLayerNormalization",),
    _rewrite,
)
