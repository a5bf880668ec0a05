"""Rewrites onnxruntime's EmbedLayerNormalization as gathers of the embeddings, sums and LayerNormalization."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.statement_writer import Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, layer_norm, unknown_type


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    if node.opset < 11:
        return Refusal(f"opset {node.opset}", "opset 11 or later", "convert the model to opset 11 or later")
    w = Writer(node)
    words = w.do("Gather", "x2", "x0")
    if node.input(8):
        places = w.do("Gather", "x3", "x8")
    else:  # positions 0, 1, ... of each sequence
        zero = w.ints(0)
        places = w.do("Slice", "x3", zero, w.do("Gather", w.do("Shape", "x0"), w.ints(1)), zero)
    pair = w.do("Add", words, places)
    total = w.do("Add", pair, w.do("Gather", "x4", "x1")) if node.input(1) else w.do("Identity", pair)
    layer_norm(w, total, "x5", "x6", dtype, "y0")
    if node.used(1):
        _write_mask_index(w)
    if node.used(2):
        w.do("Identity", total, result="y2")
    return Replacement(w.nodes(), "Gathers, sums and LayerNormalization")


def _write_mask_index(w: Writer) -> None:
    """The number of ones in each row of the mask; zeros without a mask, as onnxruntime's CPU provider gives."""
    if w.node.input(7):
        is_one = w.do("Equal", w.cast("x7", "int32"), w.number(1, "int32"))
        w.reduce("ReduceSum", w.cast(is_one, "int32"), [1], False, "y1")
    else:
        batch = w.do("Gather", w.do("Shape", "x0"), w.ints(0))
        w.do("ConstantOfShape", batch, result="y1", value=numpy_helper.from_array(np.zeros(1, np.int32)))


CONTRIB_EMBEDDING = NodeRule(
    "contrib-embedding",
    "onnxruntime's EmbedLayerNormalization becomes Gathers, sums and LayerNormalization",
    ("com.microsoft::EmbedLayerNormalization",),
    _rewrite,
)
