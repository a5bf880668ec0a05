"""Rewrites onnxruntime's EmbedLayerNormalization as gathers of the embeddings, sums and LayerNormalization.

Rewrites onnxruntime's QEmbedLayerNormalization as EmbedLayerNormalization of dequantized tables.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QEmbedLayerNormalization. Another
rule takes EmbedLayerNormalization.
"""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Operand, Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, layer_norm

_TABLES = {2: (8, 13), 3: (9, 14), 4: (10, 15), 5: (11, 16), 6: (12, 17)}
"""Quantized tables, their scales and zero points: words, positions, segments, gamma, beta."""


@node_rule("qembed-layer-normalization", "com.microsoft::QEmbedLayerNormalization")
def qembedding_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites QEmbedLayerNormalization as DequantizeLinear and EmbedLayerNormalization."""
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


@node_rule("contrib-embedding", "com.microsoft::EmbedLayerNormalization")
def contrib_embedding_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites onnxruntime's EmbedLayerNormalization as Gathers, sums and LayerNormalization."""
    dtype = float_type(node)
    if node.opset < 11:
        return Refusal(f"opset {node.opset}", "opset 11 or later", "convert the model to opset 11 or later")
    w = Writer(node)
    words = w.Gather(w.x[2], w.x[0])
    length = w.Gather(w.Shape(w.x[0]), [1])  # positions are 0, 1, ... of each sequence if none are given
    places = w.Gather(w.x[3], w.x[8]) if node.input(8) else w.Slice(w.x[3], [0], length, [0])
    pair = w.Add(words, places)
    total = w.Add(pair, w.Gather(w.x[4], w.x[1])) if node.input(1) else pair
    normal = layer_norm(w, total, w.x[5], w.x[6], dtype)
    return Replacement(w.finish(normal, _mask_index(w), total), "Gathers, sums and LayerNormalization")


def _mask_index(w: Writer) -> Value:
    """The number of ones in each row of the mask; zeros without a mask, as in onnxruntime's CPU provider."""
    if w.node.input(7):
        is_one = w.Equal(w.Cast(w.x[7], to="int32"), w.number(1, "int32"))
        return w.reduce("ReduceSum", w.Cast(is_one, to="int32"), [1], keepdims=False)
    batch = w.Gather(w.Shape(w.x[0]), [0])
    return w.ConstantOfShape(batch, value=numpy_helper.from_array(np.zeros(1, np.int32)))
