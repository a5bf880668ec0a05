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
from trtsmith.converter.rewrite.engine.statement_writer import Writer
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
        keys = w.transpose("x1", [0, 2, 1])
        scores = w.do("MatMul", w.do("Mul", "x0", factor), keys)
        masked = w.do("Add", scores, "x3") if node.input(3) else scores
        w.do("MatMul", w.do("Softmax", masked, result="y1", axis=-1), "x2", result="y0")
        return Replacement(w.nodes(), "products and a Softmax")
    if node.op_type == "fMHA_V2":
        query, key, value = _parts(w, "x0", 3)
    else:
        query = "x0"
        key, value = _parts(w, "x1", 2)
    rows, columns, values = (
        w.transpose(data, order)
        for data, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3]))
    )
    weights = w.do("Softmax", w.do("MatMul", w.do("Mul", rows, factor), columns), axis=-1)
    w.transpose(w.do("MatMul", weights, values), [0, 2, 1, 3], "y0")
    return Replacement(w.nodes(), "products and a Softmax")


def _parts(w: Writer, packed: str, count: int) -> list[str]:
    """[B, S, H, D] for each of what [B, S, H, count, D] holds."""
    return [w.squeeze(part, [3]) for part in w.split(packed, [1] * count, 3)]


STOCK_FUSED_ATTENTION = NodeRule(
    "stock-fused-attention",
    "attention of mmdeploy and of TensorRT's demo/Diffusion becomes products and a Softmax",
    kinds(*_PORTS, domains=("mmdeploy",)),
    checked(_PORTS, _rewrite),
)
