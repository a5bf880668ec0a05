"""Rewrites ScatterND and ScatterElements in a plugin's domain as ONNX's own.

TensorRT's parser looks at the op_type alone and takes such a node; but no type of it is inferred, and no other rule sees it.
So it is left alone where the model's opset has no such operator and cannot be brought to one that has. Sources:
open-mmlab/mmdeploy, csrc/mmdeploy/backend_ops/tensorrt/scatternd/trt_scatternd.cpp; NVIDIA/TensorRT,
plugin/scatterPlugin/scatterPlugin.cpp (indices are int32 in both) and plugin/scatterElementsPlugin/README.md ("in compliance
with the ONNX specification"; `axis` is 0 where it is absent).

Products of rows by index become ScatterElements that multiplies ones. Source: rusty1s/pytorch_scatter, csrc/cuda/
scatter_cuda.cu and reducer.cuh: segments without a row are one. Attributes are those of its other scatters' exporters.
"""

from __future__ import annotations

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, Refusal
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import (
    PluginForm,
    kinds,
    narrow,
    require_opset,
    rewriter,
    settings,
    wide,
)

_DOMAINS = ("mmdeploy", "mmcv")
_SCATTER = 11
_REDUCTION = 18
"""The first opsets with ScatterND, and with every reduction of ScatterElements."""

_REDUCTIONS = ("add", "mul", "max", "min", "none")


def _scatter_nd(w: Writer, dtype: str) -> Value | None:
    settings(w.node)
    return w.ScatterND(w.x[0], _indices(w), w.x[2]) if w.node.opset >= _SCATTER else None


def _scatter_elements(w: Writer, dtype: str) -> Value | Refusal | None:
    node = w.node
    given = settings(node, axis=0, reduction=str if node.domain not in _DOMAINS else "none")
    reduction = given["reduction"]
    if reduction not in _REDUCTIONS:
        return Refusal(
            f"its reduction is {reduction!r}",
            f"one of {', '.join(_REDUCTIONS)}",
            "compute the reduction by other operators, such as a sum and a count for a mean",
        )
    if node.opset < _REDUCTION:
        return None
    return w.ScatterElements(w.x[0], _indices(w), w.x[2], axis=int(given["axis"]), reduction=reduction)


def _products(w: Writer, dtype: str) -> Value | Refusal:
    node, given = w.node, settings(w.node, dim=-1, dim_size=-1)
    dims, rank = node.known_shape(0), node.known_rank(1)
    axis = given["dim"] % len(dims)
    if given["dim_size"] < 1 or dims[axis] == 0 or rank not in (1, len(dims)) or (rank == 1 and axis):
        return Refusal(
            f"dim_size is {given['dim_size']}, dim {given['dim']}, and the index has {rank} dimensions",
            "a dim_size, and an index for each element, or for each row with dim = 0",
            "export the node with dim_size, and with the index as it is for the other scatters",
        )
    require_opset(node, _REDUCTION, "ScatterElements with a reduction")
    shape = w.shape(w.x[0])
    index = _indices(w)
    if rank < len(dims):
        index = w.Expand(w.Reshape(index, shape=[-1, *[1] * (len(dims) - 1)]), shape)
    sizes = [w.size(w.x[0], each) if each != axis else given["dim_size"] for each in range(len(dims))]
    ones = w.Expand(1.0, sizes)
    return narrow(w, w.ScatterElements(ones, index, wide(w, 0), axis=axis, reduction="mul"), dtype)


def _indices(w: Writer) -> Value:
    return w.x[1] if w.node.dtype(1) == "int64" else w.Cast(w.x[1], to="int64")


STOCK_SCATTER_ND = NodeRule(
    "stock-scatter-nd",
    "ScatterND of a plugin's domain becomes ONNX's",
    kinds("ScatterND", domains=_DOMAINS),
    rewriter({"ScatterND": PluginForm(_scatter_nd, "ONNX's ScatterND", 3, floats=())}),
    opset=_SCATTER,
)

STOCK_SCATTER_ELEMENTS = NodeRule(
    "stock-scatter-elements",
    "ScatterElements of a plugin's domain becomes ONNX's",
    kinds("ScatterElements", domains=_DOMAINS),
    rewriter({"ScatterElements": PluginForm(_scatter_elements, "ONNX's ScatterElements", 3, floats=())}),
    opset=_REDUCTION,
)

STOCK_SCATTER_PRODUCTS = NodeRule(
    "stock-scatter-products",
    "torch_scatter's products of rows by index become ScatterElements",
    ("torch_scatter::scatter_mul", "dpvo::scatter_mul"),
    rewriter({"scatter_mul": PluginForm(_products, "ScatterElements", 2)}),
    opset=_REDUCTION,
)
