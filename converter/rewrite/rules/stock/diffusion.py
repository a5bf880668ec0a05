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
from trtsmith.converter.rewrite.engine.statement_writer import Writer
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


def _layer_norm(w: Writer, dtype: str) -> Refusal | None:
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
    data, scale, shift = (wide(w, f"x{i}", node.dtype(i)) for i in range(3))
    narrow(w, layer_norm(w, data, scale, shift, "float32", default=1e-5), dtype, "y0")
    return None


def _split_gelu(w: Writer, dtype: str) -> Refusal | None:
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
    left, right = w.split(wide(w, "x0", dtype), [size // 2] * 2, rank - 1)
    one, half = (w.number(value, "float32") for value in (1.0, 0.5))
    bent = w.do("Erf", w.do("Mul", right, w.number(1 / _ROOT_OF_TWO, "float32")))
    gelu = w.do("Mul", w.do("Mul", w.do("Add", bent, one), right), half)
    narrow(w, w.do("Mul", gelu, left), dtype, "y0")
    return None


def _to_spatial(w: Writer, dtype: str) -> Refusal | None:
    given = settings(w.node)
    if isinstance(given, Refusal):
        return given
    total = w.do("Add", w.do("Add", "x0", w.reshape("x1", [-1])), "x2")
    height, width = (w.size("x3", axis) for axis in (2, 3))
    image = w.reshape(total, [w.size("x0", 0), height, width, w.size("x0", 2)])
    w.transpose(image, [0, 3, 1, 2], "y0")
    return None


_BODIES: Mapping[str, tuple[Callable[[Writer, str], Refusal | None], str]] = {
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
    refusal = body(w, str(node.dtype(0)))
    return refusal or Replacement(w.nodes(), what)


STOCK_DIFFUSION = NodeRule(
    "stock-diffusion",
    "pointwise plugins of TensorRT's demo/Diffusion become standard operators",
    kinds(*_BODIES),
    checked(_PORTS, _rewrite),
)
