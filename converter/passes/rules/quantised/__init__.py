"""Quantised operators: TensorRT's own int8 where it is exact, else exact arithmetic."""

from converter.passes.node_rule import NodeRule
from converter.passes.rules.quantised.dequantize_linear import DEQUANTIZE_LINEAR
from converter.passes.rules.quantised.matmul_integer import MATMUL_INTEGER
from converter.passes.rules.quantised.narrow_casts import NARROW_CASTS
from converter.passes.rules.quantised.quantize_linear import QUANTIZE_LINEAR

QUANTISED: tuple[NodeRule, ...] = (
    QUANTIZE_LINEAR,
    DEQUANTIZE_LINEAR,
    NARROW_CASTS,
    MATMUL_INTEGER,
)
