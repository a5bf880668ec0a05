"""Rewrites attention plugins, as softmax(Q K^T / sqrt(d) + mask) V, which TensorRT fuses, and DeBERTa's scores.

Vaswani et al., arXiv 1706.03762. Sources:
- open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/scaled_dot_product_attention/: q, k, v are [B, S, E], the mask is
  two- or three-dimensional and added; the second output is what the Softmax gives.
- NVIDIA/TensorRT, release 8.5, plugin/multiHeadFlashAttentionPlugin/fmhaPlugin.cpp and fmha.cpp (fMHA_V2) and
  plugin/multiHeadCrossAttentionPlugin/fmhcaPlugin.cpp and fmhca.cpp (fMHCA), as demo/Diffusion/models.py inserts them:
  [B, S, H, 3, D] holds Q, K and V, [B, S, H, 2, D] K and V; Q and the result are [B, S, H, D].
- DerryHub/BEVFormer_tensorrt, det2trt/models/functions/multi_head_attn.py: QKVTRT and QKVTRT2, of [B, S, E], without mask.
- NVIDIA/TensorRT-Edge-LLM, ViTAttentionPlugin: q, k, v [S, H, D] of images behind one another, which begin at cu_seqlens;
  the last operand is there for its shape.

DeBERTa: He et al., arXiv 2006.03654. Source: NVIDIA/TensorRT, plugin/disentangledAttentionPlugin/disentangledKernel.cu:

    result[i, j, k] = (data0[i, j, k] + data1[i, j, p(j - k)] + data2[i, k, p(j - k)]) * factor

Every release since 8.4 is built with kDISENTANGLED_VERSION 2, logarithmic buckets, whatever the node's plugin_version says.
With m = span / 2 and z the last size of data1, p(d) is span + d up to |d| = m; beyond it, p(d) is span plus or minus
m + ceil((log |d| - log m) / (log(z - 1) - log m) * (m - 1)), clamped to the table.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    fixed_sizes,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)
from trtsmith.importers.builder import TO_END

_OPSET = 12
"""The first one with GatherElements, Range, and Min and Max of integers."""

_BELOW_ONE = 1 - 1e-7
"""The kernel's factor, by which a logarithm that is nearly a whole number is not rounded up to the next one."""


def positions(span: int, last: int, farthest: int) -> np.ndarray:
    """Computes p(d) for d from -farthest to farthest, int64. last: z. Logarithms are float64 here and float32 in the
    kernel.
    """
    middle = span // 2
    distance = np.arange(-farthest, farthest + 1)
    near = np.abs(distance) <= middle
    steps = (middle - 1) / (np.log(last - 1) - np.log(middle)) * _BELOW_ONE
    far = np.ceil((np.log(np.where(near, middle, np.abs(distance))) - np.log(middle)) * steps) + middle
    bucket = np.where(near, distance, np.sign(distance) * far)
    found: np.ndarray = np.clip(bucket + span, 0, 2 * span - 1).astype(np.int64)
    return found


def _scores(w: Writer, dtype: str) -> Value | Refusal:
    node = w.node
    given = settings(node, span=int, factor=float)
    span = given["span"]
    sizes = [dims[-1] if (dims := node.shape(i)) else None for i in (1, 2)]
    if None in sizes:
        return node.unknown(1 + sizes.index(None), "the last size")
    last, other = (int(size or 0) for size in sizes)
    if span < 4 or min(last, other) < 2 * span:
        return Refusal(
            f"its span is {span}, and the last sizes of data1 and data2 are {last} and {other}",
            "a span of at least 4, and tables of at least twice the span",
            "give the node the position buckets of the model's configuration as span",
        )
    require_opset(node, _OPSET, "GatherElements of computed places")
    indices = _indices(w, span, last)
    to_content = w.GatherElements(w.x[1], indices, axis=2)
    to_position = w.GatherElements(w.Transpose(w.x[2], perm=[0, 2, 1]), indices, axis=1)
    return w.Mul(w.Add(w.x[0], w.Add(to_content, to_position)), w.number(given["factor"], dtype))


def _indices(w: Writer, span: int, last: int) -> Value:
    """p(j - k) for queries j and keys k of every head, int64. The table covers all distances up to where p is constant."""
    farthest = last
    while True:
        w.expect(f"a table of {farthest:,} distances", nbytes=16 * farthest)
        table = positions(span, last, farthest)
        if table[[0, -1]].tolist() == [0, 2 * span - 1]:
            break
        farthest *= 2
    rows, columns = (w.arange(w.size(w.x[0], axis)) for axis in (1, 2))
    distance = w.Sub(w.Reshape(rows, shape=[-1, 1]), w.Reshape(columns, shape=[1, -1]))
    within = w.Min(w.Max(distance, [-farthest]), [farthest])
    places = w.Gather(table, w.Add(within, [farthest]), axis=0)
    return w.Expand(w.Unsqueeze(places, axes=[0]), w.shape(w.x[0]))


STOCK_DISENTANGLED_ATTENTION = NodeRule(
    "stock-disentangled-attention",
    "TensorRT's plugin for DeBERTa's attention scores becomes gathers and sums",
    kinds("DisentangledAttention_TRT"),
    rewriter(
        {
            "DisentangledAttention_TRT": PluginForm(
                _scores, "gathers and sums", 3, floats=(0, 1, 2), alike=True
            )
        }
    ),
    opset=_OPSET,
)


_WHAT = "products and a Softmax"


def _attention(w: Writer, dtype: str) -> Value | Replacement | Refusal:
    node = w.node
    settings(node)
    dims = node.shape(0)
    width = dims[-1] if dims else None
    if not width:
        return node.unknown(0, "the last size")
    factor = w.number(width**-0.5, dtype)
    if node.op_type in ("QKVTRT", "QKVTRT2"):
        scores = w.MatMul(w.Mul(w.x[0], factor), w.Transpose(w.x[1], perm=[0, 2, 1]))
        return w.MatMul(w.Softmax(scores, axis=-1), w.x[2])
    if node.op_type == "ScaledDotProductAttentionTRT":
        scores = w.MatMul(w.Mul(w.x[0], factor), w.Transpose(w.x[1], perm=[0, 2, 1]))
        masked = w.Add(scores, w.x[3]) if node.input(3) else scores
        weights = w.Softmax(masked, axis=-1)
        return Replacement(w.finish(w.MatMul(weights, w.x[2]), weights), _WHAT)
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
    return w.Transpose(w.MatMul(weights, values), perm=[0, 2, 1, 3])


def _of_images(w: Writer, dtype: str) -> Value | Refusal:
    """Attention of tokens within their own image; an image may have no tokens."""
    node = w.node
    require_opset(node, _OPSET, "Range")
    given = settings(
        node, num_heads=int, head_size=int, attention_scale=0.0, qkv_scales=np.zeros(0, np.float32)
    )
    heads, width = fixed_sizes(node, 0, 3, 1, 2)
    if (heads, width) != (given["num_heads"], given["head_size"]) or given["qkv_scales"].size:
        return Refusal(
            f"it has {given['num_heads']} heads of {given['head_size']} and {given['qkv_scales'].size} qkv_scales, and"
            f" {node.input(0)!r} {heads} heads of {width}",
            "heads as its operands have them, and no qkv_scales, which are for FP8",
            "correct its attributes, or export the model in float16",
        )
    query, key, value = (
        w.Transpose(wide(w, i), perm=order) for i, order in enumerate(([1, 0, 2], [1, 2, 0], [1, 0, 2]))
    )
    scale = float(given["attention_scale"]) if node.given("attention_scale") else width**-0.5
    ends = w.slice(w.Cast(w.x[3], to="int64"), [1], [TO_END], [0])
    token = w.Unsqueeze(w.arange(w.size(w.x[0], 0)), axes=[1])
    image = w.reduce("ReduceSum", w.Cast(w.Not(w.Less(token, ends)), to="int64"), [1])
    seen = w.Equal(image, w.Transpose(image, perm=[1, 0]))
    scores = w.Where(seen, w.MatMul(w.Mul(query, scale), key), float("-inf"))
    return narrow(w, w.Transpose(w.MatMul(w.Softmax(scores, axis=-1), value), perm=[1, 0, 2]), dtype)


def _parts(w: Writer, packed: Value, count: int) -> list[Value]:
    """Splits [B, S, H, count, D] into `count` values [B, S, H, D]."""
    return [w.Squeeze(part, axes=[3]) for part in w.split(packed, [1] * count, 3)]


_OF_BEVFORMER = PluginForm(_attention, _WHAT, 3, floats=(0, 1, 2), alike=True)
_ATTENTION = {
    "QKVTRT": _OF_BEVFORMER,
    "QKVTRT2": _OF_BEVFORMER,
    "ScaledDotProductAttentionTRT": PluginForm(
        _attention, least=3, most=4, floats=(0, 1, 2), results=2, alike=True
    ),
    "fMHA_V2": PluginForm(_attention, _WHAT),
    "ViTAttentionPlugin": PluginForm(
        _of_images, "products and a Softmax of each image", 5, floats=(0, 1, 2), alike=True
    ),
    "fMHCA": PluginForm(_attention, _WHAT, 2, floats=(0, 1), alike=True),
}

STOCK_FUSED_ATTENTION = NodeRule(
    "stock-fused-attention",
    "attention of mmdeploy, of TensorRT's demo/Diffusion and of BEVFormer_tensorrt becomes products and a Softmax",
    kinds(*_ATTENTION, domains=("mmdeploy", "trt_edgellm")),
    rewriter(_ATTENTION),
)
