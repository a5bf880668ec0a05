"""Rewrites the quantizers of NVIDIA ModelOpt as ONNX's own; for onnxruntime also those that only TensorRT has.

Source of names, ports and attributes: nvidia-modelopt 0.47, modelopt/torch/quantization/export_onnx.py,
modelopt/onnx/export/fp8_exporter.py, which leaves ONNX's operators in TensorRT's domain, and
modelopt/onnx/quantization/qdq_utils.py. Types that ONNX has are ONNX's QuantizeLinear and DequantizeLinear from opset 21 on.
MXFP8 (Open Compute Project, Microscaling Formats 1.0): blocks of 32 share the scale 2^ceil(log2(max|x| / 448)), kept as the
exponent plus 127 in eight bits, as modelopt/torch/quantization/qtensor/mxfp8_tensor.py computes it. ONNX has no operator
that finds it, so TensorRT keeps its own nodes, and onnxruntime gets arithmetic.
NVFP4: blocks of 16 share the scale max|x| / 6, kept as float8 times a scale of the tensor; values are rounded to float4e2m1,
half to even (modelopt/torch/kernels/quantization/common/nvfp4_quant.py). onnxruntime gets them as float8, which has all of
float4's numbers.
"""

from __future__ import annotations

import numpy as np

from trtsmith.converter.rewrite.engine.node_rule import NodeRule, Refusal, Replacement
from trtsmith.converter.rewrite.engine.refusing import unrefused
from trtsmith.converter.rewrite.engine.writer import Value, Writer
from trtsmith.converter.rewrite.rules.stock.stock_forms import PluginForm, kinds, rewriter, settings
from trtsmith.importers.dtypes import NUMBERS

_QUANTIZED = {
    f"TRT_{kind}{way}Linear": (f"{way}Linear", dtype)
    for kind, dtype in (("FP8", "float8_e4m3fn"), ("INT4", "int4"))
    for way in ("Quantize", "Dequantize")
} | {name: (name, "") for name in ("QuantizeLinear", "DequantizeLinear")}  # in TensorRT's domain
_LARGEST = 448.0  # of float8_e4m3fn
_LARGEST4 = 6.0  # of float4_e2m1fn
_BIAS = 127
_EXACT = 1e-9
"""More than the error of log2 in float64, and less than its step from a power of two to the next float32."""


def _standard(w: Writer, _: str) -> Replacement | Refusal:
    node = w.node
    given = settings(node, axis=1, block_size=0, saturate=1)
    operator, dtype = _QUANTIZED[node.op_type]
    places = {name: given[name] for name in ("axis", "block_size", "saturate") if node.given(name)}
    zero = w.x[2:] if node.input(2) else []
    if operator == "QuantizeLinear":
        scale = node.dtype(1) or "float32"
        data = w.x[0] if node.dtype(0) == scale else w.Cast(w.x[0], to=scale)  # ONNX has both in one type
        if not zero:
            places["output_dtype"] = NUMBERS[dtype or "uint8"]
        result = w.QuantizeLinear(data, w.x[1], *zero, **places)
    elif dtype and node.is_constant(0) and node.dtype(0) != dtype:
        return Refusal(
            f"its operand {node.input(0)!r} is a constant of {node.dtype(0)}",
            f"constants of {dtype}",
            "export the model with a ModelOpt that writes weights in their own type",
        )
    else:
        result = w.DequantizeLinear(w.x[0], w.x[1], *zero, **places)
    return Replacement(w.finish(result), f"ONNX's {operator}")


STOCK_QUANTIZERS = NodeRule(
    "stock-quantizers",
    "ModelOpt's quantizers of float8 and int4 become ONNX's",
    kinds(*_QUANTIZED),
    rewriter(dict.fromkeys(_QUANTIZED, PluginForm(_standard, least=2, most=3, floats=()))),
    opset=21,
)


def _blocks(w: Writer, data: Value, rank: int, axis: int, size: int) -> Value:
    """Moves the axis last and cuts it into blocks: [..., blocks, size]."""
    return w.Reshape(_last(w, data, rank, axis), shape=[*[0] * (rank - 1), -1, size])


def _whole(w: Writer, blocks: Value, rank: int, axis: int) -> Value:
    """Joins the blocks and moves the axis back."""
    return _last(w, w.Reshape(blocks, shape=[*[0] * (rank - 1), -1]), rank, axis)


def _last(w: Writer, data: Value, rank: int, axis: int) -> Value:
    """Swaps the axis with the last one."""
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return data if axis == rank - 1 else w.Transpose(data, perm=order)


def _shape_of(w: Writer, block: int = 32) -> tuple[int, int, int, int] | Refusal:
    """Rank, axis, block size and requested type. block: the size for nodes without one."""
    given = settings(w.node, axis=-1, block_size=block, output_dtype=0, scale_type=NUMBERS["float8_e4m3fn"])
    dims, size = w.node.shape(0), given["block_size"]
    if not dims:
        return w.node.unknown(0, "the rank")
    if size < 1:
        fix = "correct block_size where the model is exported"
        return Refusal(f"attribute 'block_size' is {size}", "blocks of one element or more", fix)
    return len(dims), given["axis"] % len(dims), size, given["output_dtype"]


def _quantize(w: Writer, _: str) -> Replacement | Refusal:
    rank, axis, size, _dtype = unrefused(_shape_of(w))
    blocks = _blocks(w, w.Cast(w.x[0], to="float32"), rank, axis, size)
    largest = w.ReduceMax(w.Abs(blocks), axes=[-1], keepdims=1)
    ratio = w.Max(w.Div(largest, np.float32(_LARGEST)), np.finfo(np.float32).tiny)
    power = w.Div(w.Log(w.Cast(ratio, to="float64")), np.float64(np.log(2)))
    exponent = w.Ceil(w.Sub(power, np.float64(_EXACT)))
    kept = w.Cast(w.Add(exponent, np.float64(_BIAS)), to="uint8")
    steps = _whole(w, w.Div(blocks, _power(w, kept)), rank, axis)
    quantized = w.Cast(steps, to="float8_e4m3fn", saturate=1)
    scales = _last(w, w.Squeeze(kept, axes=[-1]), rank, axis)
    return Replacement(w.finish(quantized, scales), "float8 with a power of two for each block")


def _dequantize(w: Writer, _: str) -> Replacement | Refusal:
    rank, axis, size, dtype = unrefused(_shape_of(w))
    scale = w.Unsqueeze(_last(w, _power(w, w.x[1]), rank, axis), axes=[-1])
    values = w.Mul(_blocks(w, w.Cast(w.x[0], to="float32"), rank, axis, size), scale)
    result = w.Cast(_whole(w, values, rank, axis), to=dtype or NUMBERS["float32"])
    return Replacement(w.finish(result), "float8 times a power of two for each block")


def _quantize_twice(w: Writer, _: str) -> Replacement | Refusal:
    rank, axis, size, _dtype = unrefused(_shape_of(w, block=16))
    blocks = _blocks(w, w.Cast(w.x[0], to="float32"), rank, axis, size)
    of_tensor = w.Cast(w.x[1], to="float32")
    share = w.Div(w.Div(w.ReduceMax(w.Abs(blocks), axes=[-1], keepdims=1), np.float32(_LARGEST4)), of_tensor)
    kept = w.Cast(w.Cast(share, to="float8_e4m3fn", saturate=1), to="float32")
    scale = w.Mul(kept, of_tensor)
    ratio = w.Where(w.Equal(scale, np.float32(0)), np.float32(0), w.Div(blocks, scale))
    ratio = w.Max(w.Min(ratio, np.float32(_LARGEST4)), np.float32(-_LARGEST4))
    size_of = w.Abs(ratio)
    above = w.Where(w.Less(size_of, np.float32(4)), np.float32(1), np.float32(2))
    step = w.Where(w.Less(size_of, np.float32(2)), np.float32(0.5), above)
    values = _whole(w, w.Mul(w.Round(w.Div(ratio, step)), step), rank, axis)
    scales = _last(w, w.Squeeze(kept, axes=[-1]), rank, axis)
    results = (w.Cast(one, to="float8_e4m3fn", saturate=1) for one in (values, scales))
    return Replacement(w.finish(*results), "float4, held as float8, with a float8 for each block")


def _power(w: Writer, exponent: Value) -> Value:
    """2 to the power of a biased exponent."""
    return w.Pow(np.float32(2), w.Sub(w.Cast(exponent, to="float32"), np.float32(_BIAS)))


_MICROSCALED = {
    "TRT_MXFP8DynamicQuantize": PluginForm(_quantize, results=2),
    "TRT_MXFP8DequantizeLinear": PluginForm(_dequantize, least=2, floats=()),
    "TRT_FP4DynamicQuantize": PluginForm(_quantize_twice, least=2, results=2),
}

MICROSCALED = NodeRule(
    "microscaled",
    "quantizers of MXFP8 and NVFP4, which TensorRT alone has, become arithmetic for onnxruntime",
    kinds(*_MICROSCALED),
    rewriter(_MICROSCALED),
    opset=19,
)
