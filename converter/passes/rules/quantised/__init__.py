"""Quantised operators: TensorRT's own int8 where it is exact, else exact arithmetic."""

from converter.passes.node_rule import NodeRule
from converter.passes.rules.quantised.conv_rules import CONV_INTEGER, QLINEAR_CONV
from converter.passes.rules.quantised.dequantize_linear import DEQUANTIZE_LINEAR
from converter.passes.rules.quantised.dynamic_lstm import DYNAMIC_QUANTIZE_LSTM
from converter.passes.rules.quantised.dynamic_quantize import DYNAMIC_QUANTIZE_LINEAR
from converter.passes.rules.quantised.gather_blocks import GATHER_BLOCK_QUANTIZED
from converter.passes.rules.quantised.matmul_integer import MATMUL_INTEGER
from converter.passes.rules.quantised.matmul_nbits import MATMUL_NBITS
from converter.passes.rules.quantised.matmul_to_float import DYNAMIC_QUANTIZE_MATMUL, MATMUL_TO_FLOAT
from converter.passes.rules.quantised.narrow_casts import NARROW_CASTS
from converter.passes.rules.quantised.qattention import QATTENTION
from converter.passes.rules.quantised.qembedding import QEMBEDDING
from converter.passes.rules.quantised.qgemm import QGEMM
from converter.passes.rules.quantised.qlinear_matmul import QLINEAR_MATMUL
from converter.passes.rules.quantised.qlinear_rules import QLINEAR_POINTWISE
from converter.passes.rules.quantised.quantize_linear import QUANTIZE_LINEAR

QUANTISED: tuple[NodeRule, ...] = (
    QUANTIZE_LINEAR,
    DEQUANTIZE_LINEAR,
    NARROW_CASTS,
    DYNAMIC_QUANTIZE_LINEAR,
    MATMUL_INTEGER,
    MATMUL_TO_FLOAT,
    DYNAMIC_QUANTIZE_MATMUL,
    QLINEAR_MATMUL,
    QGEMM,
    MATMUL_NBITS,
    GATHER_BLOCK_QUANTIZED,
    QATTENTION,
    QEMBEDDING,
    DYNAMIC_QUANTIZE_LSTM,
    CONV_INTEGER,
    QLINEAR_CONV,
    *QLINEAR_POINTWISE,
)
