"""Rewrites quantized operators: TensorRT's own int8 where it is exact, else exact arithmetic."""

from trtsmith.converter.rewrite.engine.node_rule import NodeRule
from trtsmith.converter.rewrite.rules.quantized.convolutions import CONV_INTEGER, QLINEAR_CONV
from trtsmith.converter.rewrite.rules.quantized.dequantize_linear import DEQUANTIZE_LINEAR
from trtsmith.converter.rewrite.rules.quantized.dynamic_quantize import DYNAMIC_QUANTIZE_LINEAR
from trtsmith.converter.rewrite.rules.quantized.gather_blocks import GATHER_BLOCK_QUANTIZED
from trtsmith.converter.rewrite.rules.quantized.matmul_integer import (
    DYNAMIC_QUANTIZE_MATMUL,
    MATMUL_INTEGER,
    MATMUL_TO_FLOAT,
)
from trtsmith.converter.rewrite.rules.quantized.matmul_nbits import MATMUL_NBITS
from trtsmith.converter.rewrite.rules.quantized.qlinear_matmul import QATTENTION, QGEMM, QLINEAR_MATMUL
from trtsmith.converter.rewrite.rules.quantized.qlinear_pointwise import QLINEAR_POINTWISE
from trtsmith.converter.rewrite.rules.quantized.quantize_linear import QUANTIZE_LINEAR

RULES: tuple[NodeRule, ...] = (
    QUANTIZE_LINEAR,
    DEQUANTIZE_LINEAR,
    DYNAMIC_QUANTIZE_LINEAR,
    MATMUL_INTEGER,
    MATMUL_TO_FLOAT,
    DYNAMIC_QUANTIZE_MATMUL,
    QLINEAR_MATMUL,
    QGEMM,
    MATMUL_NBITS,
    GATHER_BLOCK_QUANTIZED,
    QATTENTION,
    CONV_INTEGER,
    QLINEAR_CONV,
    *QLINEAR_POINTWISE,
)
