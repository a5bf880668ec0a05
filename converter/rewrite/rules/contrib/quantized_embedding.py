"""Rewrites onnxruntime's QEmbedLayerNormalization as EmbedLayerNormalization of dequantized tables.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization. Another
rule takes EmbedLayerNormalization.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Operand, Writer

_TABLES = {2: (8, 13), 3: (9, 14), 4: (10, 15), 5: (11, 16), 6: (12, 17)}
"""Quantized tables, their scales and zero points: words, positions, segments, gamma, beta."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    w = Writer(node)
    inputs: list[Operand] = [*w.x[:2]]
    for data, (scale, zero) in _TABLES.items():
        parts = [w.x[data], w.x[scale], *([w.x[zero]] if node.input(zero) else [])]
        inputs.append(w.DequantizeLinear(*parts) if node.input(data) else None)
    inputs += [w.x[7]] if node.input(7) else []
    epsilon = float(node.attributes.get("epsilon", 1e-12))
    results = w.EmbedLayerNormalization(
        *inputs, outputs=2 if node.output(1) else 1, domain="com.microsoft", epsilon=epsilon
    )
    return Replacement(w.finish(*results), "tables dequantized, then EmbedLayerNormalization")


QEMBEDDING = NodeRule(
    "qembed-layer-normalization",
    "QEmbedLayerNormalization becomes DequantizeLinear and EmbedLayerNormalization",
    ("com.microsoft::QEmbedLayerNormalization",),
    _rewrite,
)
