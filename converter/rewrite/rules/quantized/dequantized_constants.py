"""Keeps constants of DequantizeLinear in int4 or int8 where TensorRT takes them so, else computes them."""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Replacement
from trtsmith.converter.rewrite.engine.writer import Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES, all_equal
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity
from trtsmith.converter.rewrite.rules.quantized.weights import kept_quantized
from trtsmith.importers.dtypes import dtype_name, numpy_dtype


def kept(node: NodeView, grain: Granularity) -> Replacement | None:
    """Weights that become int4 or int8 once their zero points are taken away: smaller than float32, and fused."""
    array, scale, dtype = node.constant(0), node.constant(1), node.dtype(0) or ""
    if node.dtype(1) not in ("float32", "float16", "bfloat16"):
        return None
    if (
        array is None
        or scale is None
        or array.ndim < 2
        or dtype not in RANGES
        or "16" in dtype
        or node.domain
    ):
        return None
    if node.input(2) and not node.is_constant(2):
        return None
    found = kept_quantized(_steps(node, array, grain), scale, grain, int(dtype.lstrip("uint")))
    if found is None:
        return None
    w = Writer(node)
    attributes = {a.name: node.attributes[a.name] for a in node.proto.attribute}
    return Replacement(
        w.finish(w.DequantizeLinear(*found, **attributes)),
        f"{dtype} constants as {found[0].dtype} around zero",
    )


def _steps(node: NodeView, array: np.ndarray, grain: Granularity) -> np.ndarray:
    """Constants less their zero points."""
    zeros = node.constant(2)
    steps = array.astype(np.int32)
    return steps if zeros is None else steps - grain.shaped(zeros.astype(np.int32))


def output_type(node: NodeView) -> str:
    """Element type of the result."""
    number = int(node.attributes.get("output_dtype") or 0)
    return dtype_name(number) if number else node.dtype(1) or "float32"


def computed(node: NodeView, array: np.ndarray, grain: Granularity) -> np.ndarray:
    steps = array.astype(np.float32)
    zeros, scale = node.constant(2), node.constant(1)
    assert scale is not None
    if grain.kind == "block" and grain.size is None:
        raise ValueError("a constant has sizes")
    if zeros is not None and not all_equal(zeros, 0):
        steps = steps - grain.shaped(zeros.astype(np.float32))
    result = steps * grain.shaped(scale.astype(np.float32))
    return np.asarray(result.astype(numpy_dtype(output_type(node))))
