"""Rewrites quantized operators to TensorRT's own int8 where it is exact, else to exact arithmetic."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.quantized.convolutions import conv_integer_rule, qlinear_conv_rule
from trtsmith.converter.rewrite.rules.quantized.dequantize_linear import dequantize_linear_rule
from trtsmith.converter.rewrite.rules.quantized.dynamic_quantize import dynamic_quantize_linear_rule
from trtsmith.converter.rewrite.rules.quantized.gather_blocks import gather_block_quantized_rule
from trtsmith.converter.rewrite.rules.quantized.matmul_integer import (
    dynamic_quantize_matmul_rule,
    matmul_integer_rule,
    matmul_to_float_rule,
)
from trtsmith.converter.rewrite.rules.quantized.matmul_nbits import matmul_nbits_rule
from trtsmith.converter.rewrite.rules.quantized.qlinear_matmul import (
    qattention_rule,
    qgemm_rule,
    qlinear_matmul_rule,
)
from trtsmith.converter.rewrite.rules.quantized.qlinear_pointwise import QLINEAR_POINTWISE
from trtsmith.converter.rewrite.rules.quantized.quantize_linear import quantize_linear_rule

RULES: tuple[NodeRule, ...] = (
    quantize_linear_rule,
    dequantize_linear_rule,
    dynamic_quantize_linear_rule,
    matmul_integer_rule,
    matmul_to_float_rule,
    dynamic_quantize_matmul_rule,
    qlinear_matmul_rule,
    qgemm_rule,
    matmul_nbits_rule,
    gather_block_quantized_rule,
    qattention_rule,
    conv_integer_rule,
    qlinear_conv_rule,
    *QLINEAR_POINTWISE,
)
