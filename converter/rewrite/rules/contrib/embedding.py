"""onnxruntime's EmbedLayerNormalization: the embeddings of words, positions and segments, added and normalised."""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.opset_forms import reduce
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import float_type, layer_norm, unknown_type


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    dtype = float_type(node)
    if dtype is None:
        return unknown_type(node)
    if node.opset < 11:
        return Refusal(f"opset {node.opset}", "opset 11 or later", "convert the model to opset 11 or later")
    lines = ["words = Gather (x2, x0)"]
    if node.input(8):
        lines.append("places = Gather (x3, x8)")
    else:
        lines += ["shape = Shape (x0)", "one = Constant <value = int64[1] {1}> ()"]
        lines += ["length = Gather (shape, one)", "zero = Constant <value = int64[1] {0}> ()"]
        lines.append("places = Slice (x3, zero, length, zero)")  # positions 0, 1, ... of each sequence
    lines.append("pair = Add (words, places)")
    if node.input(1):
        lines += ["segments = Gather (x4, x1)", "total = Add (pair, segments)"]
    else:
        lines.append("total = Identity (pair)")
    lines.append(
        layer_norm("y0", "total", "x5", "x6", node.attributes.get("epsilon", 1e-12), dtype, node.opset)
    )
    if node.used(1):
        lines.append(_mask_index(node))
    if node.used(2):
        lines.append("y2 = Identity (total)")
    return Replacement(node.statements("\n".join(lines)), "Gathers, sums and LayerNormalization")


def _mask_index(node: NodeView) -> str:
    """The number of ones in each row of the mask; zeros without a mask, as onnxruntime's CPU provider gives."""
    if not node.input(7):
        return """
            ids_shape = Shape (x0)
            first = Constant <value = int64[1] {0}> ()
            batch = Gather (ids_shape, first)
            y1 = ConstantOfShape <value = int32[1] {0}> (batch)
        """
    return f"""
        mask_one = Constant <value = int32 {{1}}> ()
        mask = Cast <to = 6> (x7)
        is_one = Equal (mask, mask_one)
        ones = Cast <to = 6> (is_one)
        {reduce("ReduceSum", "y1", "ones", [1], node.opset, keepdims=False)}
    """


CONTRIB_EMBEDDING = NodeRule(
    "contrib-embedding",
    "onnxruntime's EmbedLayerNormalization becomes Gathers, sums and LayerNormalization",
    ("com.microsoft::EmbedLayerNormalization",),
    _rewrite,
)
