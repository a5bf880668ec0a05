"""Rewrites TensorRT's plugin for DeBERTa's attention scores as gathers and sums.

He et al., arXiv 2006.03654. Source: NVIDIA/TensorRT, plugin/disentangledAttentionPlugin/disentangledKernel.cu:

    result[i, j, k] = (data0[i, j, k] + data1[i, j, p(j - k)] + data2[i, k, p(j - k)]) * factor

Every release since 8.4 is built with kDISENTANGLED_VERSION 2, logarithmic buckets, whatever the node's plugin_version says.
With m = span / 2 and z the last size of data1, p(d) is span + d up to |d| = m; beyond it, p(d) is span plus or minus
m + ceil((log |d| - log m) / (log(z - 1) - log m) * (m - 1)), clamped to the table.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import PluginPorts, checked, kinds, settings, too_old

_OPSET = 12
"""The first one with GatherElements, Range, and Min and Max of integers."""

_BELOW_ONE = 1 - 1e-7
"""The kernel's factor, by which a logarithm that is nearly a whole number is not rounded up to the next one."""


def positions(span: int, last: int, farthest: int) -> np.ndarray:
    """p(d) for d from -farthest to farthest, int64. last: z. The logarithms are float64 here, float32 in the kernel."""
    middle = span // 2
    distance = np.arange(-farthest, farthest + 1)
    near = np.abs(distance) <= middle
    steps = (middle - 1) / (np.log(last - 1) - np.log(middle)) * _BELOW_ONE
    far = np.ceil((np.log(np.where(near, middle, np.abs(distance))) - np.log(middle)) * steps) + middle
    bucket = np.where(near, distance, np.sign(distance) * far)
    found: np.ndarray = np.clip(bucket + span, 0, 2 * span - 1).astype(np.int64)
    return found


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    given = settings(node, span=int, factor=float)
    if isinstance(given, Refusal):
        return given
    span, dtype = given["span"], str(node.dtype(0))
    sizes = [dims[-1] if (dims := node.shape(i)) else None for i in (1, 2)]
    if None in sizes:
        return unknown(node, 1 + sizes.index(None), "the last size")
    last, other = (int(size or 0) for size in sizes)
    if span < 4 or min(last, other) < 2 * span:
        return Refusal(
            f"its span is {span}, and the last sizes of data1 and data2 are {last} and {other}",
            "a span of at least 4, and tables of at least twice the span",
            "give the node the position buckets of the model's configuration as span",
        )
    if node.opset < _OPSET:
        return too_old(node, _OPSET, "GatherElements of computed places")
    w = Writer(node)
    indices = _indices(w, span, last)
    to_content = w.GatherElements(w.x[1], indices, axis=2)
    to_position = w.GatherElements(w.Transpose(w.x[2], perm=[0, 2, 1]), indices, axis=1)
    return Replacement(
        w.finish(w.Mul(w.Add(w.x[0], w.Add(to_content, to_position)), w.number(given["factor"], dtype))),
        "gathers and sums",
    )


def _indices(w: Writer, span: int, last: int) -> Value:
    """p(j - k) for queries j and keys k of every head, int64. A table has all distances up to where p changes no more."""
    farthest = last
    while positions(span, last, farthest)[[0, -1]].tolist() != [0, 2 * span - 1]:
        farthest *= 2
    table = positions(span, last, farthest)
    rows, columns = (w.arange(w.size(w.x[0], axis)) for axis in (1, 2))
    distance = w.Sub(w.Reshape(rows, shape=[-1, 1]), w.Reshape(columns, shape=[1, -1]))
    within = w.Min(w.Max(distance, [-farthest]), [farthest])
    places = w.Gather(table, w.Add(within, [farthest]), axis=0)
    return w.Expand(w.Unsqueeze(places, axes=[0]), w.shape(w.x[0]))


STOCK_DISENTANGLED_ATTENTION = NodeRule(
    "stock-disentangled-attention",
    "TensorRT's plugin for DeBERTa's attention scores becomes gathers and sums",
    kinds("DisentangledAttention_TRT"),
    checked({"DisentangledAttention_TRT": PluginPorts(3, floats=(0, 1, 2), alike=True)}, _rewrite),
    opset=_OPSET,
)
