"""Rewrites plugins that compute softmax(Q K^T / sqrt(d) + mask) V as products and a Softmax, which TensorRT fuses.

Vaswani et al., arXiv 1706.03762. Sources:
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/scaled_dot_product_attention/: q, k, v are [B, S, E], the mask is
  two- or three-dimensional and added; the second output is what the Softmax gives.
- NVIDIA/TensorRT, release 8.5, plugin/multiHeadFlashAttentionPlugin/fmhaPlugin.cpp and fmha.cpp (fMHA_V2) and
  plugin/multiHeadCrossAttentionPlugin/fmhcaPlugin.cpp and fmhca.cpp (fMHCA), as demo/Diffusion/models.py inserts them:
  [B, S, H, 3, D] holds Q, K and V, [B, S, H, 2, D] K and V; Q and the result are [B, S, H, D].
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import PluginPorts, checked, kinds, settings

_PORTS = {
    "ScaledDotProductAttentionTRT": PluginPorts(3, 4, floats=(0, 1, 2), results=2, alike=True),
    "fMHA_V2": PluginPorts(),
    "fMHCA": PluginPorts(2, floats=(0, 1), alike=True),
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    given, dtype, dims = settings(node), str(node.dtype(0)), node.shape(0)
    if isinstance(given, Refusal):
        return given
    width = dims[-1] if dims else None
    if not width:
        return unknown(node, 0, "the last size")
    w = Writer(node)
    factor = w.number(width**-0.5, dtype)
    if node.op_type == "ScaledDotProductAttentionTRT":
        scores = w.MatMul(w.Mul(w.x[0], factor), w.Transpose(w.x[1], perm=[0, 2, 1]))
        masked = w.Add(scores, w.x[3]) if node.input(3) else scores
        weights = w.Softmax(masked, axis=-1)
        return Replacement(w.finish(w.MatMul(weights, w.x[2]), weights), "products and a Softmax")
    if node.op_type == "fMHA_V2":
        query, key, value = _parts(w, w.x[0], 3)
    else:
        query = w.x[0]
        key, value = _parts(w, w.x[1], 2)
    rows, columns, values = (
        w.Transpose(data, perm=order)
        for data, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3]))
    )
    weights = w.Softmax(w.MatMul(w.Mul(rows, factor), columns), axis=-1)
    return Replacement(
        w.finish(w.Transpose(w.MatMul(weights, values), perm=[0, 2, 1, 3])), "products and a Softmax"
    )


def _parts(w: Writer, packed: Value, count: int) -> list[Value]:
    """[B, S, H, D] for each of what [B, S, H, count, D] holds."""
    return [w.Squeeze(part, axes=[3]) for part in w.split(packed, [1] * count, 3)]


STOCK_FUSED_ATTENTION = NodeRule(
    "stock-fused-attention",
    "attention of mmdeploy and of TensorRT's demo/Diffusion becomes products and a Softmax",
    kinds(*_PORTS, domains=("mmdeploy",)),
    checked(_PORTS, _rewrite),
)
