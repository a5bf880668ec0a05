"""Rewrites the pointwise plugins that TensorRT's demo/Diffusion inserted into models of Stable Diffusion.

Source: NVIDIA/TensorRT, release 8.5, demo/Diffusion/models.py, and under plugin/:
- layerNormPlugin/layerNormPlugin.cpp: `epsilon` and the first `axis` of those that are normalised, -1 where it is absent;
- splitGeLUPlugin/splitGeLUPlugin.cpp and splitGeLUKernel.cu: the left half of the last axis times the GELU of the right one,
  with 1.4140625 for the root of 2;
- seqLen2SpatialPlugin/seqLen2SpatialPlugin.cpp: [B, H * W, C] plus a bias and a residual, as [B, C, H, W]; the sizes are
  those of the fourth operand. Hidden sizes other than those of that network are right here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, NodeView, Refusal, Replacement
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.contrib.contrib_forms import layer_norm, unknown
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginPorts,
    checked,
    kinds,
    narrow,
    settings,
    wide,
)

_ROOT_OF_TWO = 1.4140625


def _layer_norm(w: Writer, dtype: str) -> Value | Refusal:
    node = w.node
    given, rank = settings(node, epsilon=1e-5, axis=-1), node.rank(0)
    if isinstance(given, Refusal):
        return given
    axis = given["axis"]
    if axis != -1 and (rank is None or axis != rank - 1):
        return Refusal(
            f"it normalises from axis {axis} of {rank or 'an unknown number of'} dimensions on",
            "the last axis alone",
            "flatten the axes that are normalised ahead of the node",
        )
    data, scale, shift = (wide(w, w.x[i], node.dtype(i)) for i in range(3))
    return narrow(w, layer_norm(w, data, scale, shift, "float32", default=1e-5), dtype)


def _split_gelu(w: Writer, dtype: str) -> Value | Refusal:
    given, dims = settings(w.node), w.node.shape(0)
    if isinstance(given, Refusal):
        return given
    size = dims[-1] if dims else None
    if not size:
        return unknown(w.node, 0, "the last size")
    if size % 2:
        return Refusal(
            f"the last size is {size}", "an even size", "correct the number of channels ahead of the node"
        )
    rank = len(dims or ())
    left, right = w.split(wide(w, w.x[0], dtype), [size // 2] * 2, rank - 1)
    bent = w.Erf(w.Mul(right, 1 / _ROOT_OF_TWO))
    gelu = w.Mul(w.Mul(w.Add(bent, 1.0), right), 0.5)
    return narrow(w, w.Mul(gelu, left), dtype)


def _to_spatial(w: Writer, dtype: str) -> Value | Refusal:
    given = settings(w.node)
    if isinstance(given, Refusal):
        return given
    total = w.Add(w.Add(w.x[0], w.Reshape(w.x[1], shape=[-1])), w.x[2])
    height, width = (w.size(w.x[3], axis) for axis in (2, 3))
    image = w.Reshape(total, shape=[w.size(w.x[0], 0), height, width, w.size(w.x[0], 2)])
    return w.Transpose(image, perm=[0, 3, 1, 2])


_BODIES: Mapping[str, tuple[Callable[[Writer, str], Value | Refusal], str]] = {
    "LayerNorm": (_layer_norm, "LayerNormalization"),
    "SplitGeLU": (_split_gelu, "Split, Erf and products"),
    "SeqLen2Spatial": (_to_spatial, "sums and Transpose"),
}

_PORTS = {
    "LayerNorm": PluginPorts(3, floats=(0, 1, 2)),
    "SplitGeLU": PluginPorts(),
    "SeqLen2Spatial": PluginPorts(4, floats=(0, 1, 2), alike=True),
}


def _rewrite(node: NodeView) -> Replacement | Refusal | None:
    body, what = _BODIES[node.op_type]
    w = Writer(node)
    made = body(w, str(node.dtype(0)))
    return made if isinstance(made, Refusal) else Replacement(w.finish(made), what)


STOCK_DIFFUSION = NodeRule(
    "stock-diffusion",
    "pointwise plugins of TensorRT's demo/Diffusion become standard operators",
    kinds(*_BODIES),
    checked(_PORTS, _rewrite),
)
