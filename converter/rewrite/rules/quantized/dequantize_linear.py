"""Rewrites DequantizeLinear that TensorRT refuses, around zero in int8 or int4, as a constant, or as float32 arithmetic.

https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html: (x - x_zero_point) * x_scale, here in float32 and rounded
once to the type of the output. A uint8 value u of zero point 128 is the int8 value u - 128 of zero point 0, and both
saturate at the same x: so such a pair stays in TensorRT's int8.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeView, Refusal, Replacement, node_rule
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.quantized.element_types import RANGES, all_equal, quantized_type
from trtsmith.converter.rewrite.rules.quantized.granularity import Granularity, granularity, spread
from trtsmith.converter.rewrite.rules.quantized.native_types import is_native, may_be_native
from trtsmith.converter.rewrite.rules.quantized.weights import kept_quantized
from trtsmith.importers.dtypes import dtype_name, numpy_dtype


def _kept(node: NodeView, grain: Granularity) -> Replacement | None:
    """The node with int4 or int8 weights without zero points, which stay small and fuse; None if the weights do not fit."""
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
    """Constants minus their zero points."""
    zeros = node.constant(2)
    steps = array.astype(np.int32)
    return steps if zeros is None else steps - grain.shaped(zeros.astype(np.int32))


def _output_type(node: NodeView) -> str:
    """The element type of the result."""
    number = int(node.attributes.get("output_dtype") or 0)
    return dtype_name(number) if number else node.dtype(1) or "float32"


def _computed(node: NodeView, array: np.ndarray, grain: Granularity) -> np.ndarray:
    steps = array.astype(np.float32)
    zeros, scale = node.constant(2), node.constant(1)
    assert scale is not None
    if grain.kind == "block" and grain.size is None:
        raise ValueError("a constant has sizes")
    if zeros is not None and not all_equal(zeros, 0):
        steps = steps - grain.shaped(zeros.astype(np.float32))
    result = steps * grain.shaped(scale.astype(np.float32))
    return np.asarray(result.astype(numpy_dtype(_output_type(node))))


@node_rule("dequantize", "DequantizeLinear", "com.microsoft::DequantizeLinear")
def dequantize_linear_rule(node: NodeView) -> Replacement | Refusal | None:
    """Rewrites DequantizeLinear of unsupported types or zero points as a constant, as int8 or as float32 arithmetic."""
    given = node.dtype(0) or node.dtype(2)
    grain = granularity(node)
    if isinstance(grain, Refusal):
        return None if may_be_native(node, given) else grain
    if is_native(node, given, grain):
        return None
    signed = _signed_pair(node) or _kept(node, grain)
    if signed is not None:
        return signed
    w, array = Writer(node), node.constant(0)
    if array is not None and node.is_constant(1) and (not node.input(2) or node.is_constant(2)):
        return Replacement(w.finish(_computed(node, array, grain)), f"{given} constants, dequantized")
    return Replacement(w.finish(_arithmetic(w, grain)), f"dequantized from {given} by arithmetic in float32")


def _signed_pair(node: NodeView) -> Replacement | None:
    """Rewrites a QuantizeLinear to uint8 around 128 and this node after it as the same pair in int8."""
    maker = node.maker(0)
    if (
        maker is None
        or maker.op_type != "QuantizeLinear"
        or maker.dtype(0) not in ("float32", "float16", "bfloat16")
    ):
        return None
    dtype = quantized_type(maker)
    zeros, more = node.constant(2), maker.constant(2)
    if (
        dtype != "uint8"
        or zeros is None
        or more is None
        or not (all_equal(zeros, 128) and all_equal(more, 128))
    ):
        return None
    names = ("axis", "block_size", "precision", "output_dtype")
    w = Writer(node)
    into, out = (view.own(*names) for view in (maker, node))
    into.pop("output_dtype", None)
    signed = w.QuantizeLinear(*maker.inputs[:2], np.zeros(more.shape, np.int8), **into)
    return Replacement(
        w.finish(w.DequantizeLinear(signed, w.x[1], np.zeros(zeros.shape, np.int8), **out)),
        "uint8 around 128 as int8 around 0, which TensorRT fuses",
    )


def _arithmetic(w: Writer, grain: Granularity) -> Value:
    node = w.node
    steps = w.Cast(w.x[0], to="float32")
    if node.input(2) and not all_equal(node.constant(2), 0):
        steps = w.Sub(steps, spread(w, grain, 2))
    product = w.Mul(steps, spread(w, grain, 1))
    return product if _output_type(node) == "float32" else w.Cast(product, to=_output_type(node))
