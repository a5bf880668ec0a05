"""onnxruntime's QEmbedLayerNormalization: EmbedLayerNormalization of dequantised tables.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization. Another
rule takes EmbedLayerNormalization.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.rules.quantized.lines import Lines

_TABLES = {2: (8, 13), 3: (9, 14), 4: (10, 15), 5: (11, 16), 6: (12, 17)}
"""Quantised tables, their scales and zero points: words, positions, segments, gamma, beta."""


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    lines = Lines(node)
    inputs = ["x0", "x1" if node.input(1) else '""']
    for data, (scale, zero) in _TABLES.items():
        if not node.input(data):
            inputs.append('""')
            continue
        parts = [f"x{data}", f"x{scale}", *([f"x{zero}"] if node.input(zero) else [])]
        inputs.append(lines.op(f"table_{data}", "DequantizeLinear", *parts))
    inputs += ["x7"] if node.input(7) else []
    epsilon = float(node.attributes.get("epsilon", 1e-12))
    outputs = "y0, y1" if node.output(1) else "y0"
    lines.add(
        f"{outputs} = com.microsoft.EmbedLayerNormalization <epsilon = {epsilon!r}> ({', '.join(inputs)})"
    )
    return Replacement(lines.nodes(), "tables dequantised, then EmbedLayerNormalization")


QEMBEDDING = NodeRule(
    "qembed-layer-normalization",
    "QEmbedLayerNormalization becomes DequantizeLinear and EmbedLayerNormalization",
    ("com.microsoft::QEmbedLayerNormalization",),
    _rewrite,
)
