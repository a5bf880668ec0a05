"""Infers types and shapes of onnxruntime's and TensorRT's own operators, so that onnx's shape inference does not stop there.

onnxruntime's optimiser fuses nodes of a model into operators of its domain `com.microsoft`, and saves them, of which onnx
knows nothing: a graph of twelve encoder layers would have types up to the first of them only. NVIDIA ModelOpt writes
quantizers in TensorRT's domain `trt`. Only what follows from the
inputs' types alone is here; the operators themselves are decomposed by the rules in converter/rewrite/rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from trtsmith.importers.dtypes import FLOATS, NUMBERS
from trtsmith.importers.registry import normalise_domain

DOMAIN = "com.microsoft"
TENSORRT_DOMAIN = "trt"

Dims = list[int | str | None] | None
Value = tuple[int, Dims]
"""Element type (0: unknown) and dimensions (None: unknown)."""
Attributes = Callable[[str, Any], Any]
Rule = Callable[[Sequence[Value], Attributes], Sequence[Value]]


def _like_first(count: int = 1, *rest: int) -> Rule:
    """`count` outputs like the first input, or like the inputs whose positions follow."""

    def rule(inputs: Sequence[Value], _: Attributes) -> Sequence[Value]:
        return [inputs[i] for i in (rest or [0] * count)]

    return rule


def _skip_norm(inputs: Sequence[Value], _: Attributes) -> Sequence[Value]:
    return [inputs[0], (TensorProto.FLOAT, None), (TensorProto.FLOAT, None), inputs[0]]


def _simplified(inputs: Sequence[Value], _: Attributes) -> Sequence[Value]:
    return [(_type(inputs[1:]), inputs[0][1])]


def _matmul(inputs: Sequence[Value], given: Attributes) -> Sequence[Value]:
    a = _turned(inputs[0][1], given("transA", 0), given("transBatchA", 0))
    b = _turned(inputs[1][1], given("transB", 0), given("transBatchB", 0))
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return [(_type(inputs), None)]
    batch: list[int | str | None] = []
    longest = max(len(a), len(b)) - 2
    for i in range(longest):
        sides = [
            dims[:-2][i - longest + len(dims) - 2] for dims in (a, b) if i - longest + len(dims) - 2 >= 0
        ]
        other = [side for side in sides if side != 1]
        batch.append(other[0] if len(set(other)) == 1 else None if other else 1)
    return [(_type(inputs), [*batch, a[-2], b[-1]])]


def _turned(dims: Dims, swap: int, batch: int) -> Dims:
    if dims is None or len(dims) < 2:
        return dims
    if batch:
        dims = [*dims[1:-1], dims[0], dims[-1]]
    return [*dims[:-2], dims[-1], dims[-2]] if swap else dims


def _gemm(inputs: Sequence[Value], given: Attributes) -> Sequence[Value]:
    a, b = inputs[0][1], inputs[1][1]
    if a is None or b is None:
        return [(_type(inputs), [None, None])]
    return [(_type(inputs), [a[1 if given("transA", 0) else 0], b[0 if given("transB", 0) else 1]])]


def _last_half(inputs: Sequence[Value], _: Attributes) -> Sequence[Value]:
    dims = inputs[0][1]
    last = dims[-1] if dims else None
    return [(_type(inputs), [*dims[:-1], last // 2 if isinstance(last, int) else None] if dims else None)]


def _convolution(channel: int) -> Rule:
    def rule(inputs: Sequence[Value], _: Attributes) -> Sequence[Value]:
        dims, weights = inputs[0][1], inputs[1][1]
        if dims is None:
            return [(_type(inputs), None)]
        result: list[int | str | None] = [dims[0], *[None] * (len(dims) - 1)]
        result[channel] = weights[0] if weights else None
        return [(_type(inputs), result)]

    return rule


def _attention(inputs: Sequence[Value], given: Attributes) -> Sequence[Value]:
    dims, weights = inputs[0][1], inputs[1][1]
    sizes = given("qkv_hidden_sizes", [])
    total = weights[1] if weights else None
    hidden = sizes[2] if len(sizes) == 3 else total // 3 if isinstance(total, int) else None
    first = [*dims[:2], hidden] if dims else [None, None, hidden]
    heads = given("num_heads", None)
    head = hidden // heads if isinstance(hidden, int) and heads else None
    return [(_type(inputs), first), (_type(inputs), [2, first[0], heads, None, head])]


def _multi_head(inputs: Sequence[Value], given: Attributes) -> Sequence[Value]:
    query = inputs[0][1]
    value = inputs[2][1] if len(inputs) > 2 else None
    heads = given("num_heads", None)
    hidden: int | str | None = value[2] if value and len(value) == 3 else None
    present: Value = (_type(inputs), [query[0] if query else None, heads, None, None])
    return [(_type(inputs), [*query[:2], hidden] if query else [None] * 3), present, present]


def _embedding(inputs: Sequence[Value], _: Attributes) -> Sequence[Value]:
    ids, words = inputs[0][1], inputs[2][1]
    dims = [*(ids or [None, None]), words[1] if words else None]
    return [(_type(inputs[2:]), dims), (TensorProto.INT32, [dims[0]]), (_type(inputs[2:]), dims)]


def _quantized(element: int) -> Rule:
    """element: 0 for that of the zero point."""
    return lambda inputs, _: [(element or inputs[2][0], inputs[0][1])]


def _dequantized(inputs: Sequence[Value], given: Attributes) -> Sequence[Value]:
    return [(given("output_dtype", 0) or _type(inputs[1:]), inputs[0][1])]


def _dynamically_quantized(element: int, scale: int, block: int) -> Rule:
    def rule(inputs: Sequence[Value], given: Attributes) -> Sequence[Value]:
        dims, size = inputs[0][1], given("block_size", block)
        if dims is None:
            return [(element, None), (scale, None)]
        blocks = list(dims)
        length = blocks[given("axis", -1)]
        blocks[given("axis", -1)] = -(-length // size) if isinstance(length, int) else None
        return [(element, dims), (scale, blocks)]

    return rule


def _type(inputs: Sequence[Value]) -> int:
    """The element type that the floating-point inputs share."""
    floats = [NUMBERS[name] for name in FLOATS]
    return next((element for element, _ in inputs if element in floats), 0)


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "GroupNorm"), _like_first()
    ),
    **dict.fromkeys(("QuickGelu", "RotaryEmbedding", "Trilu"), _like_first()),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "GemmFastGelu"), _matmul),
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv"), _convolution(-1)),
    "SkipGroupNorm": _like_first(2),
    "BiasSplitGelu": _last_half,
    "FusedGemm": _gemm,
    "FusedConv": _convolution(1),
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "EmbedLayerNormalization": _embedding,
}

_OF_TENSORRT: Mapping[str, Rule] = {
    "QuantizeLinear": _quantized(0),
    "TRT_FP8QuantizeLinear": _quantized(TensorProto.FLOAT8E4M3FN),
    "TRT_INT4QuantizeLinear": _quantized(TensorProto.INT4),
    **dict.fromkeys(
        (
            "DequantizeLinear",
            "TRT_FP8DequantizeLinear",
            "TRT_INT4DequantizeLinear",
            "TRT_MXFP8DequantizeLinear",
        ),
        _dequantized,
    ),
    "TRT_MXFP8DynamicQuantize": _dynamically_quantized(TensorProto.FLOAT8E4M3FN, TensorProto.UINT8, 32),
    "TRT_FP4DynamicQuantize": _dynamically_quantized(TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E4M3FN, 16),
    "TRT_Attention": _like_first(),
}

_OLD_NAMES: Mapping[str, Rule] = {
    "SimplifiedLayerNormalization": _simplified,
    "LayerNormalization": _like_first(),
}
"""In ONNX's own domain, whatever the opset: there onnxruntime keeps what it fuses into them."""

_IN_ONNX_SINCE = {"LayerNormalization": 17}
"""Opsets from which on ONNX has an operator of that name itself."""

BLOCKED = (
    "AveragePool",
    "Conv",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxPool",
    "ReorderInput",
    "ReorderOutput",
    "Upsample",
)
"""In `com.microsoft.nchwc`: refused, and that once, not for every node behind them whose type they would hide."""


def _same_rank(inputs: Sequence[Value], _: Attributes) -> Sequence[Value]:
    dims = inputs[0][1]
    return [(inputs[0][0], None if dims is None else [None] * len(dims))]


def contrib_inference(domain: str, op_type: str, opset: int) -> Callable[[Any], None] | None:
    """Returns the operator's inference function, as onnx.defs.OpSchema takes it, or None if it has none here.

    opset: the version of ONNX's own operators.
    """
    if domain == DOMAIN:
        rule = _RULES.get(op_type)
    elif domain == TENSORRT_DOMAIN:
        rule = _OF_TENSORRT.get(op_type)
    elif domain == f"{DOMAIN}.nchwc":
        rule = _same_rank if op_type in BLOCKED else None
    elif normalise_domain(domain) or opset >= _IN_ONNX_SINCE.get(op_type, opset + 1):
        rule = None
    else:
        rule = _OLD_NAMES.get(op_type)
    return None if rule is None else _inference(rule)


def _inference(rule: Rule) -> Callable[[Any], None]:
    def infer(context: Any) -> None:
        def attribute(name: str, default: Any) -> Any:
            found = context.get_attribute(name)
            return default if found is None else helper.get_attribute_value(found)

        inputs = [_value(context.get_input_type(i)) for i in range(context.get_num_inputs())]
        try:
            outputs = rule(inputs, attribute)
        except (
            IndexError,
            TypeError,
        ):  # an input is missing, or has another rank: the rule for the node says so
            return
        for index, (element, dims) in enumerate(outputs[: context.get_num_outputs()]):
            if element:
                context.set_output_type(index, helper.make_tensor_type_proto(element, dims))

    return infer


def _value(type_: onnx.TypeProto | None) -> Value:
    if type_ is None or not type_.HasField("tensor_type"):
        return 0, None
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    dims = tensor.shape.dim
    return tensor.elem_type, [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
